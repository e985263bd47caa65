"""rms_norm, rotary and silu_mul against their float64 twins, and their share of the law."""

import mlx.core as mx
import numpy as np
import pytest

import metal
from tests.metal import oracles

WIDTHS = [2, 6, 14, 16, 34, 64, 576]


def close(result: mx.array, expected: oracles.Floats) -> None:
    assert result.dtype == mx.float32
    np.testing.assert_allclose(oracles.numbers(result), expected, rtol=3e-6, atol=3e-6)


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("width", [1, *WIDTHS])
def test_rms_norm_matches(width: int) -> None:
    x, weight = mx.random.normal((5, width)), mx.random.normal((width,))
    close(metal.rms_norm(x, weight, 1e-5), oracles.rms_norm(x, weight, 1e-5))


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("weight_shape", [(20,), (3, 20)])
def test_rms_norm_of_heads_matches(weight_shape: tuple[int, ...]) -> None:
    x, weight = mx.random.normal((5, 3, 20)), mx.random.normal(weight_shape)
    close(metal.rms_norm(x, weight, 1e-6), oracles.rms_norm(x, weight, 1e-6))


@pytest.mark.usefixtures("level")
def test_rms_norm_agrees_with_mlx() -> None:
    x, weight = mx.random.normal((7, 96)) * 30, mx.random.normal((96,))
    ours, theirs = metal.rms_norm(x, weight, 1e-5), mx.fast.rms_norm(x, weight, 1e-5)
    assert mx.allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def test_rms_norm_of_zeros_is_zero() -> None:
    assert mx.all(metal.rms_norm(mx.zeros((2, 8)), mx.ones(8), 1e-6) == 0)


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("head_dim", WIDTHS)
def test_rotary_matches(head_dim: int) -> None:
    x, angles = mx.random.normal((5, 3, head_dim)), mx.random.uniform(0, 6, (5, head_dim // 2))
    cos, sin = mx.cos(angles), mx.sin(angles)
    close(metal.rotary(x, cos, sin), oracles.rotary(x, cos, sin))


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("width", [1, *WIDTHS])
def test_silu_mul_matches(width: int) -> None:
    gate_up = mx.random.normal((5, 2 * width)) * 4
    close(metal.silu_mul(gate_up), oracles.silu_mul(gate_up))


@pytest.mark.usefixtures("level")
def test_silu_of_numbers_far_from_zero_neither_overflows_nor_vanishes() -> None:
    gate = mx.array([[-1e4, -100.0, -87.0, -20.0, 0.0, 20.0, 87.0, 100.0, 1e4]])
    result = metal.silu_mul(mx.concatenate([gate, mx.ones_like(gate)], axis=1))
    np.testing.assert_allclose(
        np.array(result)[0, 3:], [-4.122307e-08, 0.0, 20.0, 87.0, 100.0, 1e4], rtol=1e-6
    )
    assert np.all(np.abs(np.array(result)[0, :3]) < 1e-35)


@pytest.mark.usefixtures("level")
def test_rows_of_a_wider_matrix_are_read_where_they_lie() -> None:
    wide = mx.random.normal((6, 10, 32))
    part = wide[:, 2:7]
    angles = mx.random.uniform(0, 6, (6, 16))
    cos, sin = mx.cos(angles), mx.sin(angles)
    copy = mx.contiguous(part)
    assert mx.array_equal(metal.rotary(part, cos, sin), metal.rotary(copy, cos, sin))
    weight = mx.random.normal((32,))
    assert mx.array_equal(metal.rms_norm(part, weight, 1e-5), metal.rms_norm(copy, weight, 1e-5))
    flat = wide.reshape(6, 320)[:, 20:84]
    assert mx.array_equal(metal.silu_mul(flat), metal.silu_mul(mx.contiguous(flat)))


@pytest.mark.usefixtures("level")
def test_any_other_strides_are_copied_first() -> None:
    turned = mx.random.normal((32, 4, 6)).transpose(2, 1, 0)
    every_second = mx.random.normal((6, 8, 64))[:, ::2, ::2]
    angles = mx.random.uniform(0, 6, (6, 16))
    cos, sin = mx.cos(angles), mx.sin(angles)
    for strided in (turned, every_second):
        copy = mx.contiguous(strided)
        assert mx.array_equal(metal.rotary(strided, cos, sin), metal.rotary(copy, cos, sin))


@pytest.mark.usefixtures("level")
def test_a_row_is_the_same_bit_for_bit_in_a_batch_of_any_size() -> None:
    gate_up = mx.random.normal((300, 200))
    weight = mx.random.normal((200,))
    angles = mx.random.uniform(0, 6, (300, 10))
    operations = {
        "silu_mul": lambda i: metal.silu_mul(gate_up[i]),
        "rms_norm": lambda i: metal.rms_norm(gate_up[i], weight, 1e-5),
        "rotary": lambda i: metal.rotary(
            gate_up[i].reshape(-1, 10, 20), mx.cos(angles[i]), mx.sin(angles[i])
        ),
    }
    for name, operation in operations.items():
        alone = mx.concatenate([operation(slice(i, i + 1)) for i in range(300)])
        together = operation(slice(0, 300))
        assert mx.array_equal(alone.view(mx.uint32), together.view(mx.uint32)), name


def test_no_rows_give_no_rows() -> None:
    none = mx.zeros((0, 8))
    assert metal.rms_norm(none, mx.ones(8), 1e-5).shape == (0, 8)
    assert metal.silu_mul(none).shape == (0, 4)
    assert metal.rotary(none.reshape(0, 2, 4), none[:, :2], none[:, :2]).shape == (0, 2, 4)
