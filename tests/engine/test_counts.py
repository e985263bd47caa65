"""The work of a step in counts, not in time: operations, evaluations, copies, calls.

Each number was counted once and is held from then on. A change that needs more of something fails
here, on any machine, and says so.
"""

from collections import Counter
from pathlib import Path

import pytest

from engine.config import AttentionKind
from engine.models import CausalLM, load_model
from tests.support.checkpoints import Quantization, TinyModel, write_checkpoint
from tests.support.counted_engine import CountedEngine, StepCount

LAYER = {
    "Linear": 4,  # q, k and v in one; output; gate and up in one; down: with norms and residuals
    "RotaryHeads": 1,  # q, k and v split, q and k turned
    "PagedCacheUpdate": 2,
    "PagedAttention": 1,
    "SiluMul": 1,
    "Reshape": 1,
}
BESIDE_THE_LAYERS = (
    16  # embedding, angles, the last norm, the rows that draw, logits and their best
)
CALLS_OF_A_STEP = 13
CALLS_OF_A_SEQUENCE = 73


def held(what: str, counted: int, committed: int) -> None:
    hint = "raise it only with a reason" if counted > committed else "hold the gain: lower it"
    assert counted == committed, f"{what}: {counted}, committed are {committed}; {hint}"


def model_of(folder: Path, num_layers: int, **changes: object) -> CausalLM:
    shape = TinyModel(**({"model_type": "llama", "num_layers": num_layers} | changes))  # type: ignore[arg-type]
    return load_model(write_checkpoint(folder / f"{shape.model_type}{num_layers}", shape)).model


def decode_step(model: CausalLM, folder: Path, num_sequences: int = 8) -> StepCount:
    """The third step: prompts and first tokens are done, every sequence computes one token."""
    engine = CountedEngine(model, folder / "graph.dot")
    engine.add(num_sequences, prompt_tokens=5)
    return [engine.step() for _ in range(3)][-1]


def operations_of_a_layer(folder: Path, **changes: object) -> Counter[str]:
    """What a model of three layers does more than one of two."""
    two, three = (decode_step(model_of(folder, n, **changes), folder) for n in (2, 3))
    return three.evaluations[0] - two.evaluations[0]


def test_a_layer_takes_ten_operations(tmp_path: Path) -> None:
    found = operations_of_a_layer(tmp_path)
    for name in LAYER.keys() | found.keys():
        held(f"{name} in a layer", found[name], LAYER.get(name, 0))


def test_a_quantised_layer_takes_as_many(tmp_path: Path) -> None:
    found = operations_of_a_layer(tmp_path, quantization=Quantization())
    held("QuantizedLinear in a layer", found["QuantizedLinear"], LAYER["Linear"])
    held("operations in a quantised layer", found.total(), sum(LAYER.values()))


def test_norms_of_queries_and_keys_take_no_operation_more(tmp_path: Path) -> None:
    found = operations_of_a_layer(tmp_path, model_type="qwen3")
    held("operations in a layer of qwen3", found.total(), sum(LAYER.values()))


@pytest.mark.parametrize("num_sequences", [1, 8])
def test_the_rest_of_a_step_takes_sixteen_operations_for_any_batch(
    llama: CausalLM, tmp_path: Path, num_sequences: int
) -> None:
    counted = decode_step(llama, tmp_path, num_sequences).num_operations
    layers = llama.spec.num_layers * sum(LAYER.values())
    held("operations beside the layers", counted - layers, BESIDE_THE_LAYERS)


def test_a_step_evaluates_once_whatever_it_computes(llama: CausalLM, tmp_path: Path) -> None:
    engine = CountedEngine(llama, tmp_path / "graph.dot")
    engine.add(4, prompt_tokens=200, temperature=1.0)  # more than one step takes
    for _ in range(4):
        held("evaluations in a step", len(engine.step().evaluations), 1)


def test_a_step_copies_no_keys_and_values(llama: CausalLM, tmp_path: Path) -> None:
    engine = CountedEngine(llama, tmp_path / "graph.dot")
    engine.add(4, prompt_tokens=30)  # their third page begins in the third step
    for _ in range(5):
        step = engine.step()
        held("bytes of K/V copied in a step", step.copied_bytes, 0)
        held("pages copied in a step", step.page_copies, 0)


def test_choices_of_one_prompt_copy_one_page_each_and_only_once(
    llama: CausalLM, tmp_path: Path
) -> None:
    engine = CountedEngine(llama, tmp_path / "graph.dot")
    engine.add(1, prompt_tokens=5, n=3)
    assert [engine.step().page_copies for _ in range(3)] == [0, 3, 0]


def test_dense_attention_copies_all_pages_in_every_step(llama: CausalLM, tmp_path: Path) -> None:
    """What the counter of copies shows where there are some."""
    engine = CountedEngine(llama, tmp_path / "graph.dot", AttentionKind.DENSE)
    engine.add(8, prompt_tokens=5)
    assert [engine.step().copied_bytes for _ in range(2)] == [8 * engine.stats().bytes_per_page] * 2


@pytest.mark.parametrize("num_sequences", [1, 8, 16])
def test_planning_and_taking_a_token_calls_few_functions(
    llama: CausalLM, tmp_path: Path, num_sequences: int
) -> None:
    """Of Python's own; their number grows with the sequences and with nothing else."""
    counted = decode_step(llama, tmp_path, num_sequences).python_calls
    committed = CALLS_OF_A_STEP + CALLS_OF_A_SEQUENCE * num_sequences
    assert counted <= committed, (
        f"Python calls in a step of {num_sequences} sequences: {counted}, committed are "
        f"{committed}; raise it only with a reason"
    )
