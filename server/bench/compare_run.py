"""All loads against all servers, in turns."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from server.bench.client import Prober
from server.bench.compare_loads import LOADS, ClosedLoad, ComparedLoad, LongPromptLoad
from server.bench.errors import RequestFailed
from server.bench.load import Clients, Load, TokenGauge, plan_requests
from server.bench.load_run import measure_gauge, run_load, warm_up
from server.bench.long_prompt import measure_stall
from server.bench.outcome import (
    Figures,
    Outcome,
    figures_of_counters,
    figures_of_run,
    figures_of_stall,
)
from server.bench.server_counters import fetch_counters
from server.bench.span import Span
from server.bench.target import Target

DECODER_TOKENS = 1000  # more than a stream has before the long prompt is answered
SEEDS_A_ROUND = 100  # more than there are loads


@dataclass(frozen=True, slots=True)
class Contestant:
    name: str
    target: Target


@dataclass(frozen=True, slots=True)
class Comparing:
    """Rounds of loads: the servers take turns at going first, and get the same prompts in a round."""

    prober: Prober
    servers: Sequence[Contestant]
    loads: Sequence[ComparedLoad]
    rounds: int
    seed: int

    async def run(self, after_each: Callable[[Sequence[Outcome]], None]) -> tuple[Outcome, ...]:
        """`after_each` load gets all outcomes so far. Raises RequestFailed where a first request fails."""
        gauge = await self._prepare()
        outcomes: list[Outcome] = []
        for turn in range(self.rounds):
            for load in self.loads:
                seed = self.seed + turn * SEEDS_A_ROUND + LOADS.index(load)
                for server in _rotated(self.servers, turn):
                    outcomes.append(await self._outcome(turn, load, server, gauge, seed))
                    after_each(outcomes)
        return tuple(outcomes)

    async def _prepare(self) -> TokenGauge:
        """Warms each server up, and asks the first how it counts tokens."""
        seed = self.seed + (self.rounds + 1) * SEEDS_A_ROUND
        for server in self.servers:
            load = Load(2, Span(64, 64), Span(8, 8), seed=seed)
            try:
                await warm_up(self.prober, server.target, load, 2)
            except RequestFailed as failure:
                raise RequestFailed(failure.kind, f"{server.name}: {failure.detail}") from failure
        return await measure_gauge(self.prober, self.servers[0].target, seed) or TokenGauge()

    async def _outcome(
        self, turn: int, load: ComparedLoad, server: Contestant, gauge: TokenGauge, seed: int
    ) -> Outcome:
        before = await fetch_counters(self.prober.client, server.target)
        outcome = Outcome(turn, load.name, server.name, {})
        try:
            figures = await self._figures(load, server.target, gauge, seed)
        except _RunFailed as failed:
            return replace(outcome, failures=failed.kinds, first_failure=failed.first)
        added = (await fetch_counters(self.prober.client, server.target)).since(before)
        figures = {**figures, **figures_of_counters(added)}
        return replace(outcome, figures=figures, counters=added.counts)

    async def _figures(
        self, load: ComparedLoad, target: Target, gauge: TokenGauge, seed: int
    ) -> Figures:
        if isinstance(load, ClosedLoad):
            return await self._closed_load(load, target, gauge, seed)
        return await self._long_prompt(load, target, gauge, seed)

    async def _closed_load(
        self, load: ClosedLoad, target: Target, gauge: TokenGauge, seed: int
    ) -> Figures:
        run = await run_load(
            self.prober, target, closed_load(load, gauge, seed), Clients(load.clients), _ignore
        )
        failures = [request.failure for request in run.requests if request.failure]
        if failures:
            raise _RunFailed(failures)
        return figures_of_run(run)

    async def _long_prompt(
        self, load: LongPromptLoad, target: Target, gauge: TokenGauge, seed: int
    ) -> Figures:
        short = Span(load.decoder_prompt, load.decoder_prompt)
        long = Span(load.long_prompt, load.long_prompt)
        answers = Span(DECODER_TOKENS, DECODER_TOKENS)
        decoders = plan_requests(Load(load.decoders, short, answers, seed=seed, gauge=gauge))
        # One more than it needs, and only the last is sent: the first ones begin as the decoders do.
        *_, arriving = plan_requests(
            Load(load.decoders + 1, long, Span(1, 1), seed=seed, gauge=gauge)
        )
        try:
            return figures_of_stall(await measure_stall(self.prober, target, decoders, arriving))
        except RequestFailed as failure:
            raise _RunFailed([failure]) from failure


class _RunFailed(Exception):
    """Some requests of a load failed."""

    def __init__(self, failures: Sequence[RequestFailed]) -> None:
        super().__init__(str(failures[0]))
        self.kinds = Counter(failure.kind for failure in failures)
        self.first = str(failures[0])


def closed_load(load: ClosedLoad, gauge: TokenGauge, seed: int) -> Load:
    return Load(
        load.num_requests,
        load.prompt,
        load.new_tokens,
        load.shared_prefix,
        seed,
        TokenGauge() if load.in_words else gauge,
    )


def _rotated(servers: Sequence[Contestant], turn: int) -> list[Contestant]:
    first = turn % len(servers)
    return [*servers[first:], *servers[:first]]


def _ignore() -> None:
    pass
