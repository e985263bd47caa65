"""`octavo bench`: the list of benches; each says its flags in its own file."""

from argparse import ArgumentParser

from server.bench.capacity_bench import CAPACITY
from server.bench.compare_bench import COMPARE
from server.bench.fragmentation_bench import FRAGMENTATION
from server.bench.kernels_bench import KERNELS
from server.bench.scaling_bench import SCALING
from server.bench.serve_bench import SERVE
from server.bench.speculative_bench import SPECULATIVE

BENCHES = (
    SERVE,
    COMPARE,
    FRAGMENTATION,
    CAPACITY,
    KERNELS,
    SCALING,
    SPECULATIVE,
)


def add_bench(parser: ArgumentParser) -> None:
    """Adds the sub-commands; each sets `command`, which returns the exit code, and `parser`."""
    benches = parser.add_subparsers(title="benches", metavar="BENCH", required=True)
    for bench in BENCHES:
        bench.add_to(benches)
