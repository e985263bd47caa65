import pytest

from server.bench.fragmentation import Trace, measure_fragmentation
from server.bench.span import Span


def trace(**changes: object) -> Trace:
    values: dict[str, object] = {
        "num_requests": 40,
        "num_sequences": 8,
        "prompt_tokens": Span(10, 90),
        "new_tokens": Span(5, 40),
        "page_size": 16,
        "bytes_per_token": 100,
        "seed": 1,
    }
    return Trace(**(values | changes))  # type: ignore[arg-type]


def test_one_request_has_the_fragmentation_of_its_arithmetic() -> None:
    alone = trace(num_requests=1, prompt_tokens=Span(17, 17), new_tokens=Span(1, 1))
    worst = measure_fragmentation(alone).worst.stats
    assert worst.pages_used == 2
    assert worst.unused_tail_slots == 15
    assert worst.unused_tail_bytes == 1500
    assert worst.fragmentation_ratio == 15 / 32


def test_the_worst_moment_is_the_one_with_most_unused_slots() -> None:
    growing = trace(num_requests=1, prompt_tokens=Span(16, 16), new_tokens=Span(17, 17))
    report = measure_fragmentation(growing)
    assert report.num_steps == 17
    assert report.worst.step == 1  # the 17th token has a page of its own
    assert report.worst.stats.unused_tail_slots == 15


def test_a_sequence_wastes_less_than_a_page() -> None:
    report = measure_fragmentation(trace())
    assert 0 < report.worst.stats.unused_tail_slots <= 8 * 15
    assert 0 < report.mean_ratio < 1


def test_pages_of_one_token_waste_nothing() -> None:
    assert measure_fragmentation(trace(page_size=1)).worst.stats.unused_tail_slots == 0


def test_larger_pages_waste_more() -> None:
    ratios = [measure_fragmentation(trace(page_size=size)).mean_ratio for size in (4, 16, 64)]
    assert ratios == sorted(ratios)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_trace_repeats_from_its_seed(seed: int) -> None:
    assert measure_fragmentation(trace(seed=seed)) == measure_fragmentation(trace(seed=seed))
