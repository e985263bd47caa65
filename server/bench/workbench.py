"""An engine in this process, driven and timed step by step: no HTTP, no text, no event loop."""

import random
import time
from statistics import median

from engine.build import engine_limits, make_runner
from engine.config import EngineConfig
from engine.engine import Engine
from engine.engine_stats import EngineStats
from engine.models import CausalLM
from engine.page_pool import PagePool
from engine.request import Request, SamplingParams
from engine.scheduler import Scheduler
from engine.step_batch import Row, StepBatch
from server.bench.errors import BenchError

SPARE_TOKENS = 256  # that early sequences may generate until the last prompt is computed


class Workbench:
    """Mutable: the engine, the random tokens of the next prompt, and who has answered yet."""

    def __init__(
        self,
        model: CausalLM,
        num_tokens: int,
        tokens_per_step: int = 512,
        backed_pages: int = 0,
    ) -> None:
        """Room for `num_tokens` tokens of K/V; `backed_pages` pages have memory from the beginning."""
        config = EngineConfig(
            kv_cache_bytes=0,
            max_num_seqs=256,
            max_num_batched_tokens=tokens_per_step,
            prefix_cache=False,
        )
        num_pages = max(-(-num_tokens // config.page_size), backed_pages)
        runner = make_runner(model, config, num_pages)
        if backed_pages:
            rows = _one_token_in_each(backed_pages, config.page_size)
            runner.run(StepBatch(rows, num_pages=backed_pages))
        limits = engine_limits(model.spec, config, num_pages)
        pool = PagePool(num_pages, config.page_size)
        self._engine = Engine(Scheduler(config, limits, model.spec.eos_token_ids, pool), runner)
        self._dice = random.Random(0)
        self._num_requests = 0
        self._answered: set[str] = set()

    @property
    def all_answered(self) -> bool:
        """Every sequence has its first token."""
        return len(self._answered) == self._num_requests

    def add(self, prompt_tokens: int, new_tokens: int) -> None:
        """A request with random tokens that ends after `new_tokens` and not before."""
        vocabulary = range(self._engine.limits.vocab_size)
        prompt = tuple(self._dice.choices(vocabulary, k=prompt_tokens))
        sampling = SamplingParams(new_tokens, temperature=0.0, ignore_eos=True)
        self._engine.add(Request(str(self._num_requests), prompt, sampling))
        self._num_requests += 1

    def step(self) -> float:
        """One step; its seconds. Raises BenchError where the device fails."""
        start = time.perf_counter()
        events = self._engine.step()
        seconds = time.perf_counter() - start
        for event in events:
            if event.error:
                raise BenchError(event.error)
            self._answered.add(event.request_id)
        return seconds

    def answer_all(self) -> list[float]:
        """Steps until every sequence has its first token; their seconds."""
        times = []
        while not self.all_answered:
            times.append(self.step())
        return times

    def stats(self) -> EngineStats:
        return self._engine.stats()


def decode_seconds(
    model: CausalLM, num_sequences: int, context: int, num_steps: int, backed_pages: int = 0
) -> float:
    """The median step of `num_sequences` that each compute one token after about `context`."""
    new_tokens = SPARE_TOKENS + num_steps
    bench = Workbench(model, num_sequences * (context + new_tokens + 16), 512, backed_pages)
    for _ in range(num_sequences):
        bench.add(context, new_tokens)
    bench.answer_all()
    return median(bench.step() for _ in range(num_steps))


def prefill_steps(model: CausalLM, prompt_tokens: int, tokens_per_step: int) -> list[float]:
    """Seconds of the steps from a prompt to its first token, with nobody else there."""
    bench = Workbench(model, prompt_tokens + 16, tokens_per_step)
    bench.add(prompt_tokens, 1)
    return bench.answer_all()


def _one_token_in_each(num_pages: int, page_size: int) -> tuple[Row, ...]:
    """What makes the system back all pages, or most of each: it gives memory where it is written."""
    return tuple(
        Row(f"{page}", (0,), start=0, page_ids=(page,), slots=(page * page_size,))
        for page in range(num_pages)
    )
