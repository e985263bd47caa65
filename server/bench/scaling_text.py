"""What `octavo bench scaling` prints. Pure."""

from collections.abc import Sequence

from server.bench.arrival import Arrival
from server.bench.footprint import Footprint
from server.bench.scaling import Sweep
from server.bench.table import table

MIB = 1 << 20


def sweep_text(sweep: Sweep) -> str:
    line = sweep.line
    found = (
        f"found: {line.base * 1e3:.3f} ms {'-' if line.slope < 0 else '+'} "
        f"{abs(line.slope) * 1e3:.5f} ms * {sweep.x_label}; "
        f"largest residual {line.residual:.1%}; slowest / fastest {sweep.spread:.2f}"
    )
    rows = [
        (
            f"{point.x:,}",
            f"{point.seconds * 1e3:.2f}",
            f"{(line.base + line.slope * point.x) * 1e3:.2f}",
            f"{point.tokens_per_second:,.1f}",
        )
        for point in sweep.points
    ]
    header = (sweep.x_label, "ms", "by the line", "tok/s")
    return f"{sweep.title}\nlaw: {sweep.law}\n{found}\n{table(header, rows)}"


def arrivals_text(arrivals: Sequence[Arrival]) -> str:
    prompt = arrivals[0].prompt_tokens
    header = (
        "tokens a step",
        "steady, ms",
        "median, ms",
        "worst, ms",
        "chunk alone, ms",
        "worst/(chunk + step)",
        "prompt, s",
        "prompt tok/s",
    )
    rows = [
        (
            str(arrival.tokens_per_step),
            f"{arrival.steady_gap * 1e3:.1f}",
            f"{arrival.median_gap * 1e3:.1f}",
            f"{arrival.worst_gap * 1e3:.1f}",
            f"{arrival.longest_chunk * 1e3:.1f}",
            f"{arrival.worst_of_chunk_and_step:.2f}",
            f"{arrival.prompt_seconds:.2f}",
            f"{arrival.prompt_tokens_per_second:,.0f}",
        )
        for arrival in arrivals
    ]
    title = (
        f"gaps between the tokens of 4 sequences while a prompt of {prompt:,} tokens is computed"
    )
    return f"{title}\nlaw: the worst gap is one chunk's time and one step's\n{table(header, rows)}"


def footprint_text(footprint: Footprint) -> str:
    parts = (
        ("before loading", footprint.before),
        ("with the model", footprint.loaded),
        (f"with the K/V of {footprint.tokens:,} tokens", footprint.full),
        ("weights, by arithmetic", footprint.weights),
        ("K/V, by arithmetic", footprint.kv),
    )
    lines = [(name, f"{size / MIB:,.1f}") for name, size in parts]
    return f"{table(('resident', 'MiB'), lines)}\nadded / arithmetic: {footprint.ratio:.2f}"
