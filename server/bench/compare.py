"""`octavo bench compare`, once its flags are read."""

import asyncio
import time
from argparse import Namespace
from collections.abc import Mapping, Sequence

from tqdm import tqdm

from server.bench.client import Prober, find_model, open_client
from server.bench.client_key import client_key
from server.bench.compare_plot import comparison_figure
from server.bench.compare_run import Comparing, Contestant
from server.bench.compare_text import as_object, as_table
from server.bench.comparison import compare
from server.bench.outcome import Outcome
from server.bench.output import telling, write_json
from server.bench.plot import check_plotting, save_figure
from server.bench.seed import chosen_seed
from server.bench.target import Target
from server.flag_reading import FlagError


def bench_compare(flags: Namespace) -> int:
    """Returns 1 if a request failed. Raises BenchError, FlagError, and RequestFailed of a first one."""
    _check(flags)
    check_plotting(flags.plot)
    seed = chosen_seed(flags.seed)
    servers, outcomes = asyncio.run(_measure(flags, seed))
    comparisons = compare(flags.loads, [server.name for server in servers], outcomes)
    with telling() as tell:
        tell(f"{as_table(comparisons, outcomes)}\n\nseed {seed}")
        if flags.plot:
            save_figure(comparison_figure(comparisons), flags.plot)
    return 1 if any(outcome.failures for outcome in outcomes) else 0


def _check(flags: Namespace) -> None:
    """Raises FlagError."""
    names = [name for name, _ in flags.server]
    if not names:
        raise FlagError("argument --server: give at least one, as NAME=URL")
    if len(set(names)) < len(names):
        raise FlagError("argument --server: two have the same name")
    if len({url for _, url in flags.server}) < len(names):
        raise FlagError("argument --server: two have the same address, and would share a cache")
    for field in ("model", "api_key", "extra"):
        for name, _ in getattr(flags, field):
            if name not in names:
                flag = field.replace("_", "-")
                raise FlagError(f"argument --{flag}: {name!r} is no server's name")


async def _measure(flags: Namespace, seed: int) -> tuple[Sequence[Contestant], tuple[Outcome, ...]]:
    async with open_client() as client:
        prober = Prober(client, time.perf_counter, flags.timeout)
        servers = [await _contestant(prober, flags, name, url) for name, url in flags.server]
        comparing = Comparing(prober, servers, flags.loads, flags.rounds, seed)
        total = flags.rounds * len(flags.loads) * len(servers)
        with tqdm(total=total, unit=" loads", disable=None) as bar:

            def keep(outcomes: Sequence[Outcome]) -> None:
                bar.update()
                _write(flags, servers, seed, outcomes)

            return servers, await comparing.run(keep)


def _write(
    flags: Namespace, servers: Sequence[Contestant], seed: int, outcomes: Sequence[Outcome]
) -> None:
    """All so far: whoever ends a long run early keeps what it found."""
    if flags.json:
        comparisons = compare(flags.loads, [server.name for server in servers], outcomes)
        write_json(flags.json, as_object(servers, seed, comparisons, outcomes))


async def _contestant(prober: Prober, flags: Namespace, name: str, url: str) -> Contestant:
    keys: Mapping[str, str] = dict(flags.api_key)
    models: Mapping[str, str] = dict(flags.model)
    key = client_key(keys.get(name))
    model = await find_model(prober.client, url, key, models.get(name))
    return Contestant(name, Target(url, model, key, extra=dict(flags.extra).get(name, {})))
