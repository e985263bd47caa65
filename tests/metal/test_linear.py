"""linear, quantized_linear and embedding against their float64 twins."""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import metal
from tests.metal import oracles

DTYPES = [mx.float32, mx.float16, mx.bfloat16]
SIZES = [(1, 1, 1), (1, 16, 7), (2, 15, 33), (3, 17, 300), (5, 50, 64), (7, 33, 257), (200, 40, 96)]


def close(result: mx.array, expected: oracles.Floats) -> None:
    """float32 sums of a few hundred products of unit size."""
    np.testing.assert_allclose(oracles.numbers(result), expected, rtol=2e-5, atol=5e-5)


def quantized(
    n: int, k: int, *, group_size: int, bits: int, dtype: mx.Dtype = mx.float32
) -> tuple[mx.array, mx.array, mx.array]:
    """Words, scales and biases of a random weight; scales in ``dtype``."""
    mx.random.seed(n * 1000 + k)
    weight = mx.random.normal((n, k)).astype(dtype)
    words, scales, biases = mx.quantize(weight, group_size=group_size, bits=bits)
    return words, scales, biases


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("m", "n", "k"), SIZES)
def test_linear_matches(m: int, n: int, k: int, dtype: mx.Dtype) -> None:
    mx.random.seed(m)
    x = mx.random.normal((m, k))
    weight = mx.random.normal((n, k)).astype(dtype)
    bias = mx.random.normal((n,))
    close(metal.linear(x, metal.pack_linear(weight)), oracles.linear(x, oracles.numbers(weight)))
    close(
        metal.linear(x, metal.pack_linear(weight, bias)),
        oracles.linear(x, oracles.numbers(weight), bias),
    )


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("group_size", [32, 64, 128])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_quantized_linear_matches(bits: int, group_size: int, dtype: mx.Dtype) -> None:
    words, scales, biases = quantized(37, 384, group_size=group_size, bits=bits, dtype=dtype)
    weight = oracles.dequantize(words, scales, biases, group_size=group_size, bits=bits)
    packed = metal.pack_quantized(words, scales, biases, group_size=group_size, bits=bits)
    for m in (1, 2, 4, 9):
        x = mx.random.normal((m, 384))
        close(metal.quantized_linear(x, packed), oracles.linear(x, weight.astype(np.float64)))


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("n", [1, 15, 16, 17, 130])
def test_quantized_linear_with_a_bias_matches_for_odd_widths(n: int) -> None:
    words, scales, biases = quantized(n, 96, group_size=32, bits=4)
    weight = oracles.dequantize(words, scales, biases, group_size=32, bits=4)
    bias = mx.random.normal((n,))
    packed = metal.pack_quantized(words, scales, biases, group_size=32, bits=4, bias=bias)
    for m in (1, 3, 10, 193):
        x = mx.random.normal((m, 96))
        close(
            metal.quantized_linear(x, packed),
            oracles.linear(x, weight.astype(np.float64), bias),
        )


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("n", [16, 37])
def test_norm_and_residual_give_the_bits_of_operations_of_their_own(n: int) -> None:
    words, scales, biases = quantized(n, 384, group_size=32, bits=4)
    few = metal.pack_quantized(words, scales, biases, group_size=32, bits=4, bias=mx.ones(n))
    dense = metal.pack_linear(mx.random.normal((n, 384)), mx.ones(n))
    weight = mx.random.normal((384,))
    for m in (1, 3, 9, 200):
        x, residual = mx.random.normal((m, 384)), mx.random.normal((m, n))
        extras = {"norm_weight": weight, "norm_eps": 1e-5, "residual": residual}
        normed = metal.rms_norm(x, weight, 1e-5)
        apart = residual + metal.quantized_linear(normed, few)
        assert mx.array_equal(metal.quantized_linear(x, few, **extras), apart)
        apart = residual + metal.linear(normed, dense)
        assert mx.array_equal(metal.linear(x, dense, **extras), apart)


def test_mlx_dequantises_to_the_same_numbers() -> None:
    words, scales, biases = quantized(20, 128, group_size=64, bits=4)
    ours = oracles.dequantize(words, scales, biases, group_size=64, bits=4)
    theirs = mx.dequantize(words, scales, biases, group_size=64, bits=4)
    np.testing.assert_allclose(np.array(theirs), ours, rtol=1e-6, atol=5e-7)


@pytest.mark.parametrize("shape", [(96,), (2, 96), (2, 3, 96), (0, 96), (2, 0, 96)])
def test_leading_axes_are_kept(shape: tuple[int, ...]) -> None:
    words, scales, biases = quantized(20, 96, group_size=32, bits=4)
    x = mx.random.normal(shape)
    packed = metal.pack_quantized(words, scales, biases, group_size=32, bits=4)
    assert metal.quantized_linear(x, packed).shape == (*shape[:-1], 20)
    assert metal.linear(x, metal.pack_linear(mx.ones((20, 96)))).shape == (*shape[:-1], 20)


def test_strided_input_is_read_in_its_order() -> None:
    packed = metal.pack_linear(mx.random.normal((20, 30)))
    x = mx.random.normal((30, 5))
    assert mx.array_equal(metal.linear(x.T, packed), metal.linear(mx.contiguous(x.T), packed))


def test_packed_arrays_in_any_layout_are_read_in_their_order() -> None:
    weight, bias = mx.random.normal((32, 64)), mx.random.normal((64,))[::2]
    packed = metal.pack_linear(weight, bias)
    turned = mx.contiguous(packed.panels.transpose(2, 0, 1)).transpose(1, 2, 0)
    strided = metal.PackedLinear(turned, bias, 32, 64)
    x, ids = mx.random.normal((3, 64)), mx.arange(20, dtype=mx.int32)[::3]
    assert mx.array_equal(metal.linear(x, strided), metal.linear(x, packed))
    assert mx.array_equal(metal.embedding(strided, ids), weight[ids])


def test_packing_keeps_the_dtype_and_adds_only_the_last_panel() -> None:
    packed = metal.pack_linear(mx.ones((33, 40), dtype=mx.bfloat16))
    assert packed.panels.shape == (3, 40, 16)
    assert packed.panels.dtype == mx.bfloat16
    assert (packed.out_features, packed.in_features) == (33, 40)
    assert packed.nbytes == 3 * 16 * 40 * 2


def test_packing_quantised_weights_keeps_their_size() -> None:
    words, scales, biases = quantized(48, 256, group_size=64, bits=4, dtype=mx.float16)
    packed = metal.pack_quantized(words, scales, biases, group_size=64, bits=4)
    assert packed.nbytes == words.nbytes + scales.nbytes + biases.nbytes
    assert (packed.out_features, packed.in_features) == (48, 256)


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("dtype", DTYPES)
def test_embedding_gives_the_rows_that_were_packed(dtype: mx.Dtype) -> None:
    weight = mx.random.normal((35, 50)).astype(dtype)
    ids = mx.array([0, 34, 16, 15, 0], dtype=mx.int32)
    rows = metal.embedding(metal.pack_linear(weight), ids)
    assert rows.dtype == mx.float32
    assert mx.array_equal(rows, weight[ids].astype(mx.float32))


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_embedding_gives_dequantised_rows(bits: int, dtype: mx.Dtype) -> None:
    words, scales, biases = quantized(35, 96, group_size=32, bits=bits, dtype=dtype)
    ids = mx.array([0, 34, 16, 15, 0], dtype=mx.int32)
    packed = metal.pack_quantized(words, scales, biases, group_size=32, bits=bits)
    expected = oracles.dequantize(words, scales, biases, group_size=32, bits=bits)
    np.testing.assert_allclose(
        np.array(metal.embedding(packed, ids)), expected[np.array(ids)], rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize("bad", [-1, 35, 47, 2**31 - 1])
def test_an_id_out_of_range_gives_zeros(bad: int) -> None:
    words, scales, biases = quantized(35, 96, group_size=32, bits=4)
    ids = mx.array([3, bad], dtype=mx.int32)
    for packed in (
        metal.pack_linear(mx.ones((35, 96))),
        metal.pack_quantized(words, scales, biases, group_size=32, bits=4),
    ):
        rows = metal.embedding(packed, ids)
        assert mx.any(rows[0] != 0)
        assert mx.all(rows[1] == 0)


@pytest.mark.usefixtures("level")
def test_an_output_row_of_the_identity_is_the_embedding() -> None:
    words, scales, biases = quantized(40, 64, group_size=32, bits=4)
    packed = metal.pack_quantized(words, scales, biases, group_size=32, bits=4)
    table = metal.embedding(packed, mx.arange(40, dtype=mx.int32))
    assert mx.array_equal(metal.quantized_linear(mx.eye(64), packed), table.T)


@given(
    m=st.integers(1, 20),
    n=st.integers(1, 70),
    groups=st.integers(1, 9),
    bits=st.sampled_from([2, 4, 8]),
)
def test_quantized_linear_is_linear_over_the_dequantised_weight(
    m: int, n: int, groups: int, bits: int
) -> None:
    words, scales, biases = quantized(n, 32 * groups, group_size=32, bits=bits)
    packed = metal.pack_quantized(words, scales, biases, group_size=32, bits=bits)
    table = metal.embedding(packed, mx.arange(n, dtype=mx.int32))
    x = mx.random.normal((m, 32 * groups))
    assert mx.array_equal(
        metal.quantized_linear(x, packed), metal.linear(x, metal.pack_linear(table))
    )
