"""`octavo bench serve`, once its flags are read."""

import asyncio
import sys
import time
from argparse import Namespace
from dataclasses import replace

from tqdm import tqdm

from server.bench.client import Prober, find_model, open_client
from server.bench.client_key import client_key
from server.bench.load import Clients, Load, Pace, Rate, TokenGauge
from server.bench.load_report import report_of
from server.bench.load_run import LoadRun, measure_gauge, run_load, warm_up
from server.bench.output import telling, write_json
from server.bench.plot import check_plotting, save_figure
from server.bench.seed import chosen_seed
from server.bench.serve_plot import serve_figure
from server.bench.serve_text import as_object, as_table
from server.bench.server_counters import fetch_counters
from server.bench.span import Span
from server.bench.target import Target
from server.flag_reading import FlagError

DEFAULT_PROMPT = Span(128, 128)
MOST_TOKENS = 100_000_000  # of a load's prompts: all of them are made before the first is sent
OTHER_SEEDS = 1_000_000  # what is sent before a load has nothing in common with it


def bench_serve(flags: Namespace) -> int:
    """Returns 1 if a request failed. Raises BenchError, FlagError, and RequestFailed of a first one."""
    paces = _paces(flags)
    if flags.prompt_tokens and flags.prompt_words:
        raise FlagError("argument --prompt-words: cannot be used with --prompt-tokens")
    _check_size(flags)
    check_plotting(flags.plot)
    target, load, runs = asyncio.run(_measure(flags, paces))
    reports = [report_of(run) for run in runs]
    with telling() as tell:
        tell(f"{as_table(reports)}\nseed {load.seed}")
        if flags.json:
            write_json(flags.json, as_object(target, load, runs))
        if flags.plot:
            save_figure(serve_figure(f"{target.model} at {target.url}", runs), flags.plot)
    return 1 if any(report.num_failed for report in reports) else 0


def _check_size(flags: Namespace) -> None:
    longest = (flags.prompt_words or flags.prompt_tokens or DEFAULT_PROMPT).high
    for flag, count in (("--requests", flags.requests), ("--warm-up", flags.warm_up)):
        if count * longest > MOST_TOKENS:
            raise FlagError(
                f"argument {flag}: {count:,} prompts of {longest:,} are more than {MOST_TOKENS:,} "
                "tokens or words in all"
            )


def _paces(flags: Namespace) -> tuple[Pace, ...]:
    if flags.rate and flags.concurrency:
        raise FlagError("argument --rate: cannot be used with --concurrency")
    if flags.rate:
        return tuple(Rate(rate) for rate in flags.rate)
    return tuple(Clients(count) for count in flags.concurrency or (8,))


async def _measure(
    flags: Namespace, paces: tuple[Pace, ...]
) -> tuple[Target, Load, tuple[LoadRun, ...]]:
    async with open_client() as client:
        prober = Prober(client, time.perf_counter, flags.timeout)
        target = await _target(prober, flags)
        load = await _load(prober, target, flags)
        await warm_up(prober, target, _apart(load), flags.warm_up)
        runs = [
            await _point(prober, target, replace(load, seed=load.seed + index), pace)
            for index, pace in enumerate(paces)
        ]
    return target, load, tuple(runs)


async def _target(prober: Prober, flags: Namespace) -> Target:
    key = client_key(flags.api_key)
    model = await find_model(prober.client, flags.url, key, flags.model)
    return Target(flags.url, model, key, flags.chat, flags.extra)


async def _load(prober: Prober, target: Target, flags: Namespace) -> Load:
    load = Load(
        num_requests=flags.requests,
        prompt=flags.prompt_words or flags.prompt_tokens or DEFAULT_PROMPT,
        new_tokens=flags.new_tokens,
        shared_prefix=flags.shared_prefix,
        seed=chosen_seed(flags.seed),
    )
    if flags.prompt_words:
        return load
    gauge = await measure_gauge(prober, target, _apart(load).seed)
    if gauge is None:
        print("The server does not count tokens: a word stands for one.", file=sys.stderr)
    return replace(load, gauge=gauge or TokenGauge())


def _apart(load: Load) -> Load:
    return replace(load, seed=load.seed + OTHER_SEEDS)


async def _point(prober: Prober, target: Target, load: Load, pace: Pace) -> LoadRun:
    with tqdm(total=load.num_requests, desc=str(pace), unit=" requests", disable=None) as bar:
        before = await fetch_counters(prober.client, target)
        run = await run_load(prober, target, load, pace, bar.update)
        added = (await fetch_counters(prober.client, target)).since(before)
        return replace(run, counters=added.counts)
