"""Answers of transformers, in float32 on the CPU. Needs the extra `parity` (torch)."""

import warnings
from pathlib import Path

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedModel
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from tests.parity.prompts import SMOLLM2_PROMPTS
from tests.parity.records import NUM_NEW_TOKENS, NUM_TOP, Record, RopeRecord
from tests.support.checkpoints import TinyModel, hf_config, random_tensors

PLACES = 6  # of a log probability in a record


def prepare() -> None:
    """Quiet, and on one thread: at one row a step, threads cost torch more than they bring."""
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    warnings.simplefilter("ignore", FutureWarning)  # of transformers' own argument names


def save_tiny_checkpoint(model: TinyModel, folder: Path) -> None:
    """Lets transformers save the model's random weights, in its own files and keys."""
    values = hf_config(model)
    config = AutoConfig.for_model(values.pop("model_type"), **values)
    hf_model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    state = {name: torch.tensor(value) for name, value in random_tensors(model)}
    missing, unexpected = hf_model.load_state_dict(state, strict=False)
    assert not unexpected
    assert set(missing) <= {"lm_head.weight"}
    hf_model.save_pretrained(folder)


def load_folder(folder: Path) -> PreTrainedModel:
    return AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    )


def load_gguf(path: Path) -> PreTrainedModel:
    """The weights of a GGUF file dequantised to float32 by the gguf package."""
    return AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, dtype=torch.float32, attn_implementation="eager"
    )


def smollm2_prompts(path: Path) -> list[list[int]]:
    tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    return [tokenizer.encode(text) for text in SMOLLM2_PROMPTS]


@torch.no_grad()
def answer(model: PreTrainedModel, prompt: list[int]) -> Record:
    """The greedy continuation, one token a step through the K/V cache."""
    ids, cache = torch.tensor([prompt]), None
    tokens: list[int] = []
    top: list[list[tuple[int, float]]] = []
    for _ in range(NUM_NEW_TOKENS):
        out = model(input_ids=ids, past_key_values=cache, use_cache=True)
        cache = out.past_key_values
        best = torch.log_softmax(out.logits[0, -1].float(), dim=-1).topk(NUM_TOP)
        pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        top.append([(token_id, round(logprob, PLACES)) for token_id, logprob in pairs])
        tokens.append(top[-1][0][0])
        ids = torch.tensor([tokens[-1:]])
    return Record(prompt, tokens, top)


def rope_record(values: dict[str, object]) -> RopeRecord:
    """What transformers makes of a Llama config with these rope keys."""
    config = AutoConfig.for_model("llama", **values)
    parameters = config.rope_parameters
    kind = parameters["rope_type"]
    if kind == "default":
        exponents = torch.arange(0, config.head_dim, 2).float() / config.head_dim
        return RopeRecord(values, (1 / parameters["rope_theta"] ** exponents).tolist(), 1.0)
    frequencies, factor = ROPE_INIT_FUNCTIONS[kind](config, torch.device("cpu"))
    return RopeRecord(values, frequencies.tolist(), factor)
