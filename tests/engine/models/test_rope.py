"""Rotary embedding: published formulas, and the numbers that transformers computes from them."""

import math
from itertools import pairwise

import mlx.core as mx
import pytest

from engine.models.fields import Fields
from engine.models.hf_config import parse_rope
from engine.models.layers import RotaryEmbedding
from engine.models.rope import DivisorScaling, LinearScaling, Llama3Scaling, Rope, YarnScaling
from engine.models.row_ops import CPURowOps, HeadShape, MLXRowOps
from tests.parity.records import load_rope_records

PLAIN = Rope(64, 10000.0)


@pytest.mark.parametrize("record", load_rope_records(), ids=lambda r: str(r.config))
def test_every_spelling_of_a_config_gives_the_frequencies_of_transformers(record):
    """Case E04."""
    rope = parse_rope(Fields(record.config, "config.json"), head_dim=64)
    assert rope.inverse_frequencies() == pytest.approx(record.inverse_frequencies, rel=1e-5)
    assert rope.attention_factor() == pytest.approx(record.attention_factor, rel=1e-5)


def test_plain_frequencies_fall_from_one_by_equal_ratios():
    frequencies = PLAIN.inverse_frequencies()
    assert len(frequencies) == 32
    assert frequencies[0] == 1.0
    ratios = [b / a for a, b in pairwise(frequencies)]
    assert ratios == pytest.approx([10000 ** (-1 / 32)] * 31)


def test_linear_scaling_divides_every_frequency():
    scaled = Rope(64, 10000.0, LinearScaling(2.0)).inverse_frequencies()
    assert scaled == pytest.approx([f / 2 for f in PLAIN.inverse_frequencies()])


def test_llama3_scaling_keeps_short_waves_and_divides_long_ones():
    rope = Rope(64, 500000.0, Llama3Scaling(8.0, 1.0, 4.0, 8192))
    plain = Rope(64, 500000.0).inverse_frequencies()
    for frequency, scaled in zip(plain, rope.inverse_frequencies(), strict=True):
        wave = 2 * math.pi / frequency
        if wave < 8192 / 4:
            assert scaled == pytest.approx(frequency)
        elif wave > 8192 / 1:
            assert scaled == pytest.approx(frequency / 8)
        else:
            assert frequency / 8 < scaled < frequency


def test_yarn_keeps_the_fastest_and_divides_the_slowest_frequency():
    rope = Rope(64, 10000.0, YarnScaling(4.0, 2048))
    scaled, plain = rope.inverse_frequencies(), PLAIN.inverse_frequencies()
    assert scaled[0] == pytest.approx(plain[0])
    assert scaled[-1] == pytest.approx(plain[-1] / 4)
    assert rope.attention_factor() == pytest.approx(0.1 * math.log(4) + 1)


def test_divisors_from_the_file_divide_one_frequency_each():
    divisors = tuple(1.0 + i for i in range(32))
    scaled = Rope(64, 10000.0, DivisorScaling(divisors)).inverse_frequencies()
    expected = [f / d for f, d in zip(PLAIN.inverse_frequencies(), divisors, strict=True)]
    assert scaled == pytest.approx(expected)


@pytest.mark.parametrize(
    ("scaling", "context"),
    [
        (None, 2048),
        (LinearScaling(2.0), 4096),
        (Llama3Scaling(8.0, 1.0, 4.0, 256), 2048),
        (YarnScaling(4.0, 2048), 8192),
        (YarnScaling(4.0, 512), 2048),
    ],
)
def test_the_context_is_what_the_scaling_extends_it_to(scaling, context):
    """Case E04."""
    assert Rope(64, 10000.0, scaling).extended_context(2048) == context


@pytest.mark.parametrize("ops", [CPURowOps(), MLXRowOps()], ids=["cpu", "mlx"])
def test_a_head_is_rotated_pair_by_pair_by_position_times_frequency(ops):
    rope = Rope(8, 10000.0, YarnScaling(4.0, 2048))
    positions, heads = [0, 3, 3000], mx.random.normal((3, 3, 8), key=mx.random.key(0))
    rotation = RotaryEmbedding(rope, ops)(mx.array(positions))
    q, k, v = rotation(heads.reshape(3, 24), HeadShape(1, 1, 8), None)
    rotated = mx.concatenate([q, k], axis=1)
    assert mx.array_equal(v, heads[:, 2:])
    frequencies, factor = rope.inverse_frequencies(), rope.attention_factor()
    for t, position in enumerate(positions):
        for i, frequency in enumerate(frequencies):
            cos, sin = math.cos(position * frequency), math.sin(position * frequency)
            for head in range(2):
                x, y = heads[t, head, i].item(), heads[t, head, i + 4].item()
                expected = [factor * (x * cos - y * sin), factor * (y * cos + x * sin)]
                got = [rotated[t, head, i].item(), rotated[t, head, i + 4].item()]
                assert got == pytest.approx(expected, abs=2e-4)
