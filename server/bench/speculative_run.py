"""Runs `octavo bench speculative`: one client of an engine in this process, or of a server."""

import asyncio
import time
from argparse import Namespace
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Protocol

from engine.build import build_engine
from engine.device import select_device
from engine.engine_loop import EngineLoop
from engine.engine_stats import StepReport
from engine.request import Request, SamplingParams
from server.bench.client import Prober, find_model, open_client
from server.bench.client_key import client_key
from server.bench.errors import BenchError
from server.bench.load import PlannedRequest
from server.bench.output import telling, write_json
from server.bench.server_counters import DRAFTED_TOKENS, fetch_counters
from server.bench.speculative import (
    PASSAGES,
    Compared,
    Pair,
    Passage,
    Settings,
    Timed,
    as_object,
    as_table,
)
from server.bench.target import Target
from server.draft_model import with_draft_model
from server.flag_reading import NGRAM, device_of, engine_config
from server.machine import this_machine
from server.store.model_store import resolve_model
from server.text.chat_template import render_chat
from server.text.tokenizer import Tokenizer
from server.text.tokenizer_loading import load_tokenizer

TIMEOUT = 600.0  # seconds for one answer of a server


class Client(Protocol):
    async def ask(self, passage: Passage, *, drafts: bool) -> Timed:
        """A greedy answer. Raises BenchError where there is none to be timed."""
        ...


def bench_speculative(flags: Namespace) -> int:
    """Prints the table. Raises ModelError, FlagError, BenchError."""
    settings, compared = asyncio.run(_compare_all(flags))
    with telling() as tell:
        tell(as_table(compared))
        if flags.json:
            write_json(flags.json, as_object(settings, compared))
    return 0


async def _compare_all(flags: Namespace) -> tuple[Settings, list[Compared]]:
    opened = _server_client(flags) if flags.url else _engine_client(flags)
    async with opened as (client, settings):
        return settings, [await compare(client, passage, flags.rounds) for passage in PASSAGES]


async def compare(client: Client, passage: Passage, rounds: int) -> Compared:
    pairs = [
        Pair(await client.ask(passage, drafts=False), await client.ask(passage, drafts=True))
        for _ in range(rounds)
    ]
    if len({timed.num_tokens for pair in pairs for timed in (pair.plain, pair.drafted)}) > 1:
        raise BenchError(f"{passage.name}: the answer with drafts is not the one without")
    return Compared(passage, tuple(pairs))


@dataclass(frozen=True, slots=True)
class ServerClient:
    """Asks over HTTP; the server's own count of tokens decides."""

    prober: Prober
    target: Target
    max_tokens: int

    async def ask(self, passage: Passage, *, drafts: bool) -> Timed:
        """See `Client`."""
        extra = {"ignore_eos": None, "speculative": drafts}
        request = PlannedRequest(passage.prompt, self.max_tokens)
        measured = await self.prober.measure(replace(self.target, extra=extra), request)
        if measured.failure:
            raise BenchError(f"{passage.name}: {measured.failure}")
        return _timed(passage, measured.output_tokens, list(measured.arrivals))

    async def warm_up(self) -> None:
        """Copying answers until one had drafts. Raises BenchError where none had, or no server tells."""
        for passage in (passage for passage in PASSAGES if passage.repeats_prompt):
            before = await fetch_counters(self.prober.client, self.target)
            await self.ask(passage, drafts=True)
            added = (await fetch_counters(self.prober.client, self.target)).since(before)
            drafted = added.total(DRAFTED_TOKENS)
            if drafted is None:
                raise BenchError(f"{self.target.url}/metrics does not tell {DRAFTED_TOKENS}")
            if drafted:
                return
        raise BenchError(f"{self.target.url} drafts nothing: start it with --speculative")


@asynccontextmanager
async def _server_client(flags: Namespace) -> AsyncIterator[tuple[Client, Settings]]:
    key = client_key(flags.api_key)
    async with open_client() as http:
        model = await find_model(http, flags.url, key)
        target = Target(flags.url, model, key, chat=True)
        prober = Prober(http, time.perf_counter, TIMEOUT)
        client = ServerClient(prober, target, flags.new_tokens)
        await client.warm_up()
        yield client, Settings(flags.url, model, None, None, flags.rounds, flags.new_tokens)


class EngineClient:
    """Asks an engine in this process; the mutable state numbers the requests."""

    def __init__(self, engine: EngineLoop, tokenizer: Tokenizer, max_tokens: int) -> None:
        self._engine = engine
        self._tokenizer = tokenizer
        self._max_tokens = max_tokens
        self._num_requests = 0

    async def ask(self, passage: Passage, *, drafts: bool) -> Timed:
        """See `Client`."""
        self._num_requests += 1
        sampling = SamplingParams(self._max_tokens, temperature=0.0)
        prompt = tuple(self._prompt(passage))
        name = str(self._num_requests)
        arrivals = []
        async for event in self._engine.submit(Request(name, prompt, sampling, speculative=drafts)):
            if event.error:
                raise BenchError(f"{passage.name}: {event.error}")
            arrivals.append(time.perf_counter())
        return _timed(passage, len(arrivals), arrivals)

    def _prompt(self, passage: Passage) -> list[int]:
        if not self._tokenizer.has_chat_template:
            return self._tokenizer.encode(passage.prompt, add_special=True, parse_special=False)
        return render_chat(
            self._tokenizer,
            [{"role": "user", "content": passage.prompt}],
            add_generation_prompt=True,
            continue_final=False,
            template_kwargs={},
        )


@asynccontextmanager
async def _engine_client(flags: Namespace) -> AsyncIterator[tuple[Client, Settings]]:
    machine = this_machine()
    device = device_of(flags, machine)
    path = resolve_model(flags.model).path
    tokenizer = load_tokenizer(path)
    how = flags.speculative or NGRAM  # a bench of drafts drafts
    drafting = Namespace(**vars(flags) | {"speculative": how})
    config = with_draft_model(engine_config(drafting, device, machine), tokenizer)
    assert config.speculation, "it drafts"
    most = config.speculation.max_draft_tokens
    select_device(device, flags.threads)
    engine = await build_engine(path, config, _NoObserver())
    try:
        client = EngineClient(engine, tokenizer, flags.new_tokens)
        await client.ask(PASSAGES[0], drafts=True)  # warm
        yield client, Settings(None, flags.model, how, most, flags.rounds, flags.new_tokens)
    finally:
        await engine.stop(0)


class _NoObserver:
    def step(self, report: StepReport) -> None:
        """The client's own clock tells all that is asked for."""


def _timed(passage: Passage, num_tokens: int, arrivals: list[float]) -> Timed:
    if num_tokens < 2 or arrivals[-1] <= arrivals[0]:
        raise BenchError(f"{passage.name}: an answer of {num_tokens} tokens cannot be timed")
    return Timed(num_tokens, arrivals[-1] - arrivals[0])
