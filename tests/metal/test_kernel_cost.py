"""The floors: counted by hand for a small layer, and the table of docs/metal.md kept to the code."""

from pathlib import Path

import pytest

from metal.benchmark import HEADS, Work, main, time_attention
from metal.kernel_cost import Cost, HeadSizes, attention_cost, cache_update_cost

DOCUMENT = Path(__file__).parents[2] / "docs/metal.md"
M1, M4_MAX = (68, 2.6), (546, 16)
ROWS = {
    "decode, 1 sequence of 4096": attention_cost(HEADS, 1, 1, 4096),
    "decode, 32 sequences of 4096": attention_cost(HEADS, 32, 1, 4096),
    "prefill, 512 tokens": attention_cost(HEADS, 1, 512, 512),
    "prefill, 512 tokens at 4096": attention_cost(HEADS, 1, 512, 4096),
    "cache update, 1 token": cache_update_cost(HEADS, 1),
    "cache update, 512 tokens": cache_update_cost(HEADS, 512),
}


@pytest.mark.parametrize("name", ROWS)
def test_the_document_gives_the_floors_of_the_code(name: str) -> None:
    cost = ROWS[name]
    floors = " | ".join(f"{cost.floor_us(*chip):.1f}" for chip in (M1, M4_MAX))
    row = f"| {name} | {cost.bytes} | {cost.flops} | {cost.flops / cost.bytes:.1f} | {floors} |"
    assert row in DOCUMENT.read_text(encoding="utf-8").splitlines()


def test_causal_pairs_are_counted_once() -> None:
    """Two queries at the end of three tokens see 2 and 3 keys: 5 pairs of 1 head and D = 1."""
    cost = attention_cost(HeadSizes(1, 1, 1), sequences=1, queries=2, context=3)
    assert cost == Cost(bytes=2 * (2 + 2 + 3 + 3), flops=4 * 5)


def test_the_slower_of_memory_and_arithmetic_is_the_floor() -> None:
    cost = Cost(bytes=10**6, flops=10**6)
    assert cost.floor_us(gigabytes_per_second=1, teraflops=1) == 1000
    assert cost.floor_us(gigabytes_per_second=1e6, teraflops=1e-6) == 10**6


def test_the_benchmark_times_a_batch() -> None:
    timing = time_attention(Work("small", sequences=2, queries=3, context=40), calls=2)
    assert timing.microseconds > 0
    assert timing.cost == attention_cost(HEADS, 2, 3, 40)


def test_the_benchmark_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--help"])
    assert end.value.code == 0
    assert "--bandwidth" in capsys.readouterr().out
