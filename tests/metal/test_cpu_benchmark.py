"""The floors of the CPU kernels: the rates are used as they should be, and every case computes."""

from collections.abc import Sequence
from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest
from numpy.typing import NDArray

from metal import _ext
from metal.cpu_benchmark import KernelTime, time_kernels
from metal.cpu_cases import HEADS, Case, plans
from metal.kernel_cost import Cost, attention_cost, cache_update_cost, linear_cost, row_cost
from metal.machine_rates import MachineRates, ReadRate, measure_rates

RATES = MachineRates(
    instruction_level="plain",
    num_threads=1,
    reads=(ReadRate(100, 8.0), ReadRate(400, 4.0), ReadRate(1600, 2.0)),
    triad_bytes_per_second=1.0,
    flops_per_second=10.0,
)


@pytest.mark.parametrize(
    ("num_bytes", "rate"), [(1, 8.0), (100, 8.0), (399, 8.0), (400, 4.0), (10**9, 2.0)]
)
def test_the_rate_of_reading_is_that_of_the_next_smaller_buffer(
    num_bytes: int, rate: float
) -> None:
    assert RATES.read_rate(num_bytes) == rate


def test_a_buffer_that_noise_slowed_down_takes_the_rate_of_a_larger_one() -> None:
    noisy = replace(RATES, reads=(ReadRate(100, 8.0), ReadRate(400, 1.0), ReadRate(1600, 2.0)))
    assert noisy.read_rate(400) == 2.0
    assert noisy.read_rate(100) == 8.0


def test_the_floor_is_the_slower_of_reading_and_arithmetic() -> None:
    reading = KernelTime("r", Cost(bytes=400, flops=10), 400, seconds=1.0, mlx_seconds=1.0)
    assert reading.floor_seconds(RATES) == 100.0
    assert reading.is_bound_by_reading(RATES)
    computing = KernelTime("c", Cost(bytes=400, flops=10**4), 400, seconds=1.0, mlx_seconds=1.0)
    assert computing.floor_seconds(RATES) == 1000.0
    assert not computing.is_bound_by_reading(RATES)


def test_a_working_set_beyond_the_caches_is_read_at_the_rate_of_memory() -> None:
    cold = KernelTime("c", Cost(bytes=400, flops=10), 64 * 400, seconds=1.0, mlx_seconds=1.0)
    assert cold.floor_seconds(RATES) == 400 / RATES.memory_rate


def test_a_linear_layer_reads_its_weight_once() -> None:
    assert linear_cost(rows=2, n=3, k=5, weight_bytes=7) == Cost(7 + 4 * 2 * 8, 2 * 2 * 3 * 5)
    assert row_cost(numbers=6, flops_each=4) == Cost(bytes=48, flops=24)


def case(name: str) -> Case:
    (plan,) = (plan for plan in plans() if plan.name == name)
    return plan.make()


def test_the_costs_of_cases_are_those_of_their_sizes() -> None:
    quantized = case("quantized_linear 4 bits, 8 x 576 x 3072")
    weight = 3072 * 576 // 2 + 2 * 2 * 3072 * 576 // 32  # codes, then scales and biases in halves
    assert quantized.cost == linear_cost(8, 3072, 576, weight)
    decode = case("paged_attention decode, 16 x 1 at 300")
    assert decode.cost == attention_cost(HEADS, 16, 1, 300)
    update = case("paged_cache_update, 512 rows of K and V")
    assert update.cost == cache_update_cost(HEADS, 512)


def flat(results: mx.array | Sequence[mx.array]) -> NDArray[np.float32]:
    """All numbers of one or more arrays."""
    arrays = [results] if isinstance(results, mx.array) else results
    return np.concatenate([np.array(array).ravel() for array in arrays])


@pytest.mark.parametrize(
    "name",
    [
        "quantized_linear 4 bits, 8 x 576 x 3072",
        "linear float32, 1 x 576 x 3072",
        "paged_attention decode, 1 x 1 at 1000",
        "rms_norm, 512 x 576",
        "rotary_heads, 512 x 12 x 64",
        "silu_mul, 512 x 1536",
        "embedding 4 bits, 512 x 576",
    ],
)
def test_both_sides_of_a_case_compute_the_same(name: str) -> None:
    both = case(name)
    ours, theirs = flat(both.ours(0)), flat(both.theirs(0))
    assert np.allclose(ours, theirs, rtol=2e-2, atol=2e-2 * np.abs(theirs).max())


def test_weights_from_memory_are_other_arrays_in_each_call() -> None:
    cold = case("quantized_linear 4 bits, 1 x 576 x 3072, weights from memory")
    assert cold.copies == 64
    assert cold.working_set == 64 * cold.cost.bytes
    first, second = cold.ours(0), cold.ours(1)
    assert isinstance(first, mx.array) and isinstance(second, mx.array)
    assert mx.array_equal(first, second)


def test_kernels_are_chosen_by_their_names() -> None:
    (one,) = time_kernels("rms_norm, 1 x", rounds=1)
    assert one.name == "rms_norm, 1 x 576"
    assert one.seconds > 0 and one.mlx_seconds > 0
    assert list(time_kernels("no such kernel")) == []


def test_the_machine_is_probed_from_the_first_cache_to_memory() -> None:
    rates = measure_rates(largest_buffer=1 << 20, repeats=1)
    assert [read.buffer_bytes for read in rates.reads] == [1 << 16, 1 << 18, 1 << 20]
    assert min(read.bytes_per_second for read in rates.reads) > 0
    assert rates.triad_bytes_per_second > 0
    assert rates.flops_per_second > 0


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: _ext.probe_read(1000, 1, 1, 1), "block_bytes of whole KiB, got 1000"),
        (lambda: _ext.probe_read(1024, 0, 1, 1), "num_blocks of at least 1, got 0"),
        (lambda: _ext.probe_read(1024, 1, 0, 1), "passes of at least 1, got 0"),
        (lambda: _ext.probe_triad(0, 1, 1), "block_bytes of whole KiB, got 0"),
        (lambda: _ext.probe_triad(1024, 1, 0), "repeats of at least 1, got 0"),
        (lambda: _ext.probe_fma(1, 0, 1), "rounds of at least 1, got 0"),
        (lambda: measure_rates(largest_buffer=1000), "at least 65536 bytes"),
        (lambda: measure_rates(repeats=0), "at least 1 repeat"),
    ],
)
def test_a_probe_refuses_what_it_cannot_measure(call: object, told: str) -> None:
    assert callable(call)
    with pytest.raises(ValueError, match=told):
        call()
