"""`octavo bench fragmentation`: its flags, its table, its JSON."""

from argparse import Namespace
from collections.abc import Mapping
from dataclasses import asdict

from server.bench.bench import Bench
from server.bench.flag_parsers import MOST_REQUESTS
from server.bench.fragmentation import FragmentationReport, Trace, measure_fragmentation
from server.bench.output import JSON_FLAG, telling, write_json
from server.bench.span import span
from server.flag_values import whole
from server.flags import Flag, FlagGroup

FLAGS = (
    FlagGroup(
        "trace",
        (
            Flag(
                "--requests",
                "requests, one arriving each step",
                whole(1, MOST_REQUESTS),
                "N",
                "200",
            ),
            Flag("--max-num-seqs", "sequences that run at a time", whole(1), "N", "16"),
            Flag("--prompt-tokens", "length of a prompt", span, "LOW:HIGH", "128:1024"),
            Flag("--new-tokens", "length of an answer", span, "LOW:HIGH", "32:128"),
            Flag("--page-size", "tokens in a page", whole(1), "N", "16"),
            Flag(
                "--bytes-per-token",
                "what `octavo serve` prints for a page, divided by the tokens in it",
                whole(1),
                "BYTES",
                "46080",
            ),
            Flag("--seed", "the same seed gives the same trace", whole(0), "N", "0"),
        ),
    ),
    FlagGroup("output", (JSON_FLAG,)),
)


def _run(flags: Namespace) -> int:
    trace = Trace(
        num_requests=flags.requests,
        num_sequences=flags.max_num_seqs,
        prompt_tokens=flags.prompt_tokens,
        new_tokens=flags.new_tokens,
        page_size=flags.page_size,
        bytes_per_token=flags.bytes_per_token,
        seed=flags.seed,
    )
    report = measure_fragmentation(trace)
    with telling() as tell:
        tell(_as_text(trace, report))
        if flags.json:
            write_json(flags.json, _as_object(trace, report))
    return 0


def _as_text(trace: Trace, report: FragmentationReport) -> str:
    stats = report.worst.stats
    live_slots = stats.pages_used * stats.page_size
    rows = (
        ("steps", f"{report.num_steps}"),
        ("worst moment", f"step {report.worst.step}, {stats.requests_running} sequences"),
        ("unused slots in last pages", f"{stats.unused_tail_slots} of {live_slots} in live pages"),
        ("fragmentation", f"{stats.fragmentation_ratio:.2%}"),
        ("unused bytes", f"{stats.unused_tail_bytes:,}"),
        ("live pages", f"{stats.pages_used} of {trace.page_size} tokens"),
        ("capacity", f"{stats.page_capacity} pages"),
        ("mean fragmentation", f"{report.mean_ratio:.2%}"),
    )
    return "\n".join(f"{name:28}{value}" for name, value in rows)


def _as_object(trace: Trace, report: FragmentationReport) -> Mapping[str, object]:
    """As docs/bench-engine.md says."""
    stats = report.worst.stats
    return {
        "trace": asdict(trace),
        "steps": report.num_steps,
        "worst_step": report.worst.step,
        "fragmentation_ratio": stats.fragmentation_ratio,
        "unused_tail_slots": stats.unused_tail_slots,
        "unused_tail_bytes": stats.unused_tail_bytes,
        "live_pages": stats.pages_used,
        "page_capacity": stats.page_capacity,
        "mean_ratio": report.mean_ratio,
    }


FRAGMENTATION = Bench(
    "fragmentation",
    "unused slots in the last pages of sequences, at the worst moment of a random trace",
    "Unused slots in the last pages of sequences over all slots in live pages, at the worst moment "
    "of a random trace. Needs no model.",
    FLAGS,
    _run,
)
