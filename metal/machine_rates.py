"""How fast this machine reads and computes, with the threads and instruction level of the kernels.

Every rate is measured, none is taken from a data sheet: the fastest of several runs of a loop that
does nothing else. So no kernel can be faster, but for the noise of the machine.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from metal import _ext
from metal.ops import instruction_level, num_threads

KIB = 1024
SMALLEST_BUFFER = 64 * KIB
LARGEST_BUFFER = 256 * KIB * KIB
STEP = 4  # from one buffer to the next larger one
BYTES_PER_RUN = 128 * KIB * KIB  # at least: small buffers are read again and again
FMA_BLOCKS_PER_THREAD = 16
FMA_ROUNDS = 4000


@dataclass(frozen=True, slots=True)
class ReadRate:
    """Of a buffer that all threads together read over and over."""

    buffer_bytes: int
    bytes_per_second: float


@dataclass(frozen=True, slots=True)
class MachineRates:
    """`reads` from the smallest buffer, that lies in the first cache, to the largest, in memory."""

    instruction_level: str
    num_threads: int
    reads: tuple[ReadRate, ...]
    triad_bytes_per_second: float  # a + scale * b in memory: two arrays read, one written
    flops_per_second: float  # a multiply-add counts two

    def read_rate(self, num_bytes: int) -> float:
        """Bytes per second of the largest buffer that is no larger, so rather too fast than too slow.

        A larger buffer that was read faster, as the machine's noise has it, counts in its place.
        """
        smaller = sum(read.buffer_bytes <= num_bytes for read in self.reads)
        return max(read.bytes_per_second for read in self.reads[max(0, smaller - 1) :])

    @property
    def memory_rate(self) -> float:
        """Bytes per second of the largest buffer."""
        return self.reads[-1].bytes_per_second


def measure_rates(largest_buffer: int = LARGEST_BUFFER, repeats: int = 5) -> MachineRates:
    """About a second. Raises ValueError for a buffer below 64 KiB or fewer than 1 repeat."""
    if largest_buffer < SMALLEST_BUFFER or repeats < 1:
        raise ValueError(
            f"expected a buffer of at least {SMALLEST_BUFFER} bytes and at least 1 repeat, "
            f"got {largest_buffer} and {repeats}"
        )
    return MachineRates(
        instruction_level=instruction_level(),
        num_threads=num_threads(),
        reads=tuple(_read_rate(size, repeats) for size in _buffers(largest_buffer)),
        triad_bytes_per_second=_triad_rate(largest_buffer, repeats),
        flops_per_second=_fma_rate(repeats),
    )


def _buffers(largest: int) -> Iterator[int]:
    size = SMALLEST_BUFFER
    while size <= largest:
        yield size
        size *= STEP


def _read_rate(size: int, repeats: int) -> ReadRate:
    threads = num_threads()
    block = max(1, size // threads // KIB) * KIB
    passes = max(1, BYTES_PER_RUN // size)
    seconds = _ext.probe_read(block, threads, passes, repeats)
    return ReadRate(size, block * threads * passes / seconds)


def _triad_rate(size: int, repeats: int) -> float:
    """Three arrays that are as large as the buffer together."""
    block = SMALLEST_BUFFER
    num_blocks = max(1, size // 3 // block)
    return 3 * num_blocks * block / _ext.probe_triad(block, num_blocks, repeats)


def _fma_rate(repeats: int) -> float:
    blocks = FMA_BLOCKS_PER_THREAD * num_threads()
    seconds = _ext.probe_fma(blocks, FMA_ROUNDS, repeats)
    return blocks * FMA_ROUNDS * _ext.probe_flops / seconds
