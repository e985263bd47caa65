"""What those who decode notice of a long prompt that arrives, for several budgets of tokens in a step."""

from dataclasses import dataclass
from statistics import median

from engine.models import CausalLM
from server.bench.workbench import SPARE_TOKENS, Workbench, prefill_steps

DECODERS, DECODER_PROMPT = 4, 64
STEADY_STEPS = 16


@dataclass(frozen=True, slots=True)
class Arrival:
    """Every step gives each decoder a token, so the gaps between its tokens are the steps' times."""

    tokens_per_step: int
    steady_gap: float  # seconds: the median before the prompt came
    median_gap: float  # while it was computed
    worst_gap: float
    longest_chunk: float  # seconds: of the same prompt with nobody else there
    prompt_tokens: int
    prompt_seconds: float

    @property
    def worst_of_chunk_and_step(self) -> float:
        """The worst gap over one chunk's time and one step's: what nobody should wait longer than."""
        return self.worst_gap / (self.longest_chunk + self.steady_gap)

    @property
    def prompt_tokens_per_second(self) -> float:
        return self.prompt_tokens / self.prompt_seconds


def measure_arrival(model: CausalLM, prompt_tokens: int, tokens_per_step: int) -> Arrival:
    """`tokens_per_step` is more than the decoders: at least one of the prompt's is in each step."""
    chunk = tokens_per_step - DECODERS
    num_steps = prompt_tokens // chunk + 1
    new_tokens = SPARE_TOKENS + STEADY_STEPS + num_steps
    room = DECODERS * (DECODER_PROMPT + new_tokens + 16) + prompt_tokens + 16
    bench = Workbench(model, room + room // 50, tokens_per_step)  # a little stays free at admission
    for _ in range(DECODERS):
        bench.add(DECODER_PROMPT, new_tokens)
    bench.answer_all()
    steady = [bench.step() for _ in range(STEADY_STEPS)]
    bench.add(prompt_tokens, 1)
    gaps = bench.answer_all()
    return Arrival(
        tokens_per_step=tokens_per_step,
        steady_gap=median(steady),
        median_gap=median(gaps),
        worst_gap=max(gaps),
        longest_chunk=max(prefill_steps(model, prompt_tokens, chunk)),
        prompt_tokens=prompt_tokens,
        prompt_seconds=sum(gaps),
    )
