"""rms_norm, rotary_heads and silu_mul against their float64 twins, and their share of the law."""

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


def heads_of(x: mx.array, cos: mx.array, sin: mx.array) -> list[mx.array]:
    """q, k and v of `x` [T, 6 D]: four query heads, one KV head."""
    return list(metal.rotary_heads(x, cos, sin, num_heads=4, num_kv_heads=1))


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("head_dim", WIDTHS)
def test_rotary_heads_turns_q_and_k_and_leaves_v(head_dim: int) -> None:
    x, angles = mx.random.normal((5, 8 * head_dim)), mx.random.uniform(0, 6, (5, head_dim // 2))
    cos, sin = mx.cos(angles), mx.sin(angles)
    q, k, v = metal.rotary_heads(x, cos, sin, num_heads=4, num_kv_heads=2)
    parts = x.reshape(5, 8, head_dim)
    close(q, oracles.rotary(parts[:, :4], cos, sin))
    close(k, oracles.rotary(parts[:, 4:6], cos, sin))
    assert mx.array_equal(v, parts[:, 6:])


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("head_dim", WIDTHS)
def test_rotary_heads_with_a_norm_is_rms_norm_and_then_rotary_heads(head_dim: int) -> None:
    x, angles = mx.random.normal((5, 8 * head_dim)), mx.random.uniform(0, 6, (5, head_dim // 2))
    cos, sin, weight = mx.cos(angles), mx.sin(angles), mx.random.normal((6, head_dim))
    counts = {"num_heads": 4, "num_kv_heads": 2}
    fused = metal.rotary_heads(x, cos, sin, **counts, norm_weight=weight, norm_eps=1e-6)
    qk = metal.rms_norm(x.reshape(5, 8, head_dim)[:, :6], weight, 1e-6).reshape(5, -1)
    normed = mx.concatenate([qk, x[:, 6 * head_dim :]], axis=1)
    for ours, theirs in zip(fused, metal.rotary_heads(normed, cos, sin, **counts), strict=True):
        assert mx.array_equal(ours, theirs)


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
    part = wide[:, 2:8]
    angles = mx.random.uniform(0, 6, (6, 16))
    cos, sin = mx.cos(angles), mx.sin(angles)
    copy = mx.contiguous(part)
    rows = wide.reshape(6, 320)[:, 64:256]
    pairs = zip(heads_of(rows, cos, sin), heads_of(mx.contiguous(rows), cos, sin), strict=True)
    assert all(mx.array_equal(ours, theirs) for ours, theirs in pairs)
    weight = mx.random.normal((32,))
    assert mx.array_equal(metal.rms_norm(part, weight, 1e-5), metal.rms_norm(copy, weight, 1e-5))
    flat = wide.reshape(6, 320)[:, 20:84]
    assert mx.array_equal(metal.silu_mul(flat), metal.silu_mul(mx.contiguous(flat)))


@pytest.mark.usefixtures("level")
def test_any_other_strides_are_copied_first() -> None:
    turned = mx.random.normal((192, 6)).transpose(1, 0)
    every_second = mx.random.normal((6, 384))[:, ::2]
    angles = mx.random.uniform(0, 6, (6, 16))
    cos, sin = mx.cos(angles), mx.sin(angles)
    for strided in (turned, every_second):
        copies = heads_of(mx.contiguous(strided), cos, sin)
        for ours, theirs in zip(heads_of(strided, cos, sin), copies, strict=True):
            assert mx.array_equal(ours, theirs)


@pytest.mark.usefixtures("level")
def test_a_row_is_the_same_bit_for_bit_in_a_batch_of_any_size() -> None:
    gate_up = mx.random.normal((300, 200))
    weight = mx.random.normal((200,))
    angles = mx.random.uniform(0, 6, (300, 10))
    operations = {
        "silu_mul": lambda i: metal.silu_mul(gate_up[i]),
        "rms_norm": lambda i: metal.rms_norm(gate_up[i], weight, 1e-5),
        "rotary_heads": lambda i: mx.concatenate(
            metal.rotary_heads(
                gate_up[i], mx.cos(angles[i]), mx.sin(angles[i]), num_heads=6, num_kv_heads=2
            ),
            axis=1,
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
    q, k, v = metal.rotary_heads(none, none[:, :1], none[:, :1], num_heads=2, num_kv_heads=1)
    mx.eval(q, k, v)
    assert q.shape == (0, 2, 2)
    assert k.shape == v.shape == (0, 1, 2)
