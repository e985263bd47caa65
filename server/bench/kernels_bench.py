"""`octavo bench kernels`: its flags, its table, its JSON, its plot."""

import sys
from argparse import ArgumentTypeError, Namespace
from typing import TYPE_CHECKING

from server.bench.bench import Bench
from server.bench.output import OUTPUT_FLAGS, telling, write_json
from server.bench.plot import check_plotting, doubling_axis, from_zero, new_figure, save_figure
from server.bench.table import table
from server.flag_reading import FlagError
from server.flag_values import not_empty, size, whole
from server.flags import Flag, FlagGroup
from server.machine import available_memory

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from engine.kernel_benchmark import KernelReport

KIB = 1024
MIB = 1024 * KIB
SMALLEST_PROBE = 64 * KIB


def probe_size(text: str) -> int:
    value = size(text)
    if value < SMALLEST_PROBE:
        raise ArgumentTypeError(f"{text} is less than 64KiB")
    return value


FLAGS = FlagGroup(
    "measuring",
    (
        Flag(
            "--only",
            "the kernels whose names contain this",
            not_empty,
            "TEXT",
            shown_default="all",
        ),
        Flag("--rounds", "times that each is measured; the fastest counts", whole(1), "N", "15"),
        Flag(
            "--probe-memory",
            "the largest buffer that the rate of reading is measured with: well above the caches",
            probe_size,
            "SIZE",
            "256MiB",
        ),
        Flag("--threads", "threads that share the work", whole(1, 1024), "N", shown_default="all"),
    ),
)


def _run(flags: Namespace) -> int:
    """1 where no kernel has the name. Raises FlagError, BenchError."""
    from engine.kernel_benchmark import benchmark_kernels  # noqa: PLC0415

    _check_memory(flags.probe_memory, available_memory())
    check_plotting(flags.plot)
    report = benchmark_kernels(flags.only or "", flags.rounds, flags.probe_memory, flags.threads)
    if not report.kernels:
        print(f"octavo: no kernel is called {flags.only!r}", file=sys.stderr)
        return 1
    with telling() as tell:
        tell(_as_text(report))
        if flags.json:
            write_json(flags.json, as_json(report))
        if flags.plot:
            save_figure(kernels_figure(report), flags.plot)
    return 0


def _check_memory(wanted: int, available: int) -> None:
    if wanted > available:
        raise FlagError(
            f"argument --probe-memory: {wanted / MIB:,.0f} MiB are more than the "
            f"{available / MIB:,.0f} MiB of memory available"
        )


def _as_text(report: "KernelReport") -> str:
    return f"{_machine(report)}\n\n{_kernels(report)}"


def _machine(report: "KernelReport") -> str:
    rates = report.rates
    reads = table(
        ("buffer", "read, GB/s"),
        [
            (f"{read.buffer_bytes // KIB:,} KiB", f"{read.bytes_per_second / 1e9:.1f}")
            for read in rates.reads
        ],
    )
    return (
        f"{rates.instruction_level}, {rates.num_threads} threads; "
        f"multiply-adds {rates.flops_per_second / 1e9:.1f} GFLOP/s, "
        f"triad {rates.triad_bytes_per_second / 1e9:.1f} GB/s\n{reads}"
    )


def _kernels(report: "KernelReport") -> str:
    header = (
        "kernel",
        "us",
        "GFLOP/s",
        "GB/s",
        "floor, us",
        "bound by",
        "share",
        "MLX, us",
        "ratio",
    )
    rows = []
    for kernel in report.kernels:
        floor = kernel.floor_seconds(report.rates)
        bound = "reading" if kernel.is_bound_by_reading(report.rates) else "arithmetic"
        rows.append(
            (
                kernel.name,
                f"{kernel.seconds * 1e6:.1f}",
                f"{kernel.cost.flops / kernel.seconds / 1e9:.1f}",
                f"{kernel.cost.bytes / kernel.seconds / 1e9:.1f}",
                f"{floor * 1e6:.1f}",
                bound,
                f"{floor / kernel.seconds:.0%}",
                f"{kernel.mlx_seconds * 1e6:.1f}",
                f"{kernel.mlx_seconds / kernel.seconds:.1f}",
            )
        )
    return table(header, rows)


def as_json(report: "KernelReport") -> dict[str, object]:
    """Times in seconds, sizes in bytes, rates for each second."""
    rates = report.rates
    return {
        "machine": {
            "instruction_level": rates.instruction_level,
            "threads": rates.num_threads,
            "flops_per_second": rates.flops_per_second,
            "triad_bytes_per_second": rates.triad_bytes_per_second,
            "reads": [
                {"buffer_bytes": read.buffer_bytes, "bytes_per_second": read.bytes_per_second}
                for read in rates.reads
            ],
        },
        "kernels": [
            {
                "name": kernel.name,
                "seconds": kernel.seconds,
                "mlx_seconds": kernel.mlx_seconds,
                "flops": kernel.cost.flops,
                "bytes": kernel.cost.bytes,
                "working_set_bytes": kernel.working_set,
                "floor_seconds": kernel.floor_seconds(rates),
            }
            for kernel in report.kernels
        ],
    }


def kernels_figure(report: "KernelReport") -> "Figure":
    figure = new_figure("CPU kernels and their floors", 2, 2)
    shares, reads = figure.subplots(1, 2, width_ratios=(2, 1))
    names = [kernel.name for kernel in report.kernels]
    values = [100 * k.floor_seconds(report.rates) / k.seconds for k in report.kernels]
    bars = shares.barh(names, values)
    shares.bar_label(bars, fmt="%.0f")
    shares.margins(x=0.1)
    shares.invert_yaxis()
    shares.set_xlabel("floor / time, percent")
    shares.tick_params(axis="y", labelsize="small")
    sizes = [read.buffer_bytes / KIB for read in report.rates.reads]
    rates = [read.bytes_per_second / 1e9 for read in report.rates.reads]
    reads.plot(sizes, rates, marker="o")
    doubling_axis(reads, sizes)
    from_zero(reads, rates)
    reads.set_xlabel("buffer, KiB")
    reads.set_ylabel("reading, GB/s")
    reads.grid(visible=True, alpha=0.3)
    return figure


KERNELS = Bench(
    "kernels",
    "each CPU kernel against what this machine's memory and arithmetic allow, and beside MLX's own",
    "Time each CPU kernel. Its floor is the larger of its bytes over the rate of reading and its "
    "operations over the rate of multiply-adds, both measured in the same run. Needs no model.",
    (FLAGS, OUTPUT_FLAGS),
    _run,
)
