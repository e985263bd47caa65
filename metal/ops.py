"""The typed face of the compiled module: what each operation takes, gives and promises.

All operations are lazy like MLX's own. Shapes, dtypes and layouts are checked when an operation is
built and refused with a ValueError that reads "[op] expected ..., got ...". What index arrays hold
(slots, page ids, token ids) is not known then and is not checked; each docstring says what an index
out of range does. No operation reads or writes outside its arrays.
"""

from collections.abc import Sequence
from importlib.metadata import version

import mlx.core as mx

from metal.packing import PackedLinear, PackedQuantized

BUILD_COMMAND = "python -m pip install -e ."

# mlx.core comes first: the extension shares its array type and its library.
try:
    from metal import _ext
except ImportError as error:
    raise ImportError(
        f"the compiled module metal._ext is missing or does not load ({error}); "
        f"in the checkout run: {BUILD_COMMAND}"
    ) from error
if version("mlx") != _ext.mlx_version:
    raise ImportError(
        f"metal._ext was built for mlx {_ext.mlx_version} but mlx {version('mlx')} is installed; "
        f"in the checkout run: {BUILD_COMMAND}"
    )


def empty(shape: Sequence[int], dtype: mx.Dtype) -> mx.array:
    """An array whose contents nobody has written; reading them gives anything, NaN too.

    A large one takes address space at once, and on Linux memory only where it is written.
    Raises ValueError for a negative size and for 2^64 bytes or more; its evaluation raises
    MemoryError where the system refuses the address space.
    """
    return _ext.empty(shape, dtype)


def paged_cache_update(pages: mx.array, values: mx.array, slot_mapping: mx.array) -> mx.array:
    """Write the rows of ``values`` into the pages, in place.

    ``pages`` [P, H_kv, page_size, D], row-contiguous; ``values`` [T, H_kv, D]; ``slot_mapping`` int32 [T].
    Row t goes to slot ``slot_mapping[t] = page_id * page_size + offset`` and is converted to the dtype of
    ``pages``; both may be float32, float16 or bfloat16. A row with slot -1, or with any slot outside the
    pages, is not written. When a slot is named twice either row may win.

    The result shares the buffer of ``pages``: nothing is copied, and the old array sees the new
    numbers once the result is evaluated. Keep only the result, and let readers depend on it.

    Raises ValueError for shapes or dtypes that do not fit and for pages with other strides.
    """
    return _ext.paged_cache_update(pages, values, slot_mapping)


def paged_attention(  # noqa: PLR0913, PLR0917 (the batch has this many parts)
    q: mx.array,
    key_pages: mx.array,
    value_pages: mx.array,
    block_table: mx.array,
    context_lens: mx.array,
    query_start_locs: mx.array,
    *,
    scale: float,
    window: int | None = None,
    soft_cap: float | None = None,
    sinks: mx.array | None = None,
) -> mx.array:
    """Causal attention of a ragged batch over paged keys and values.

    ``q`` [T, H_q, D]; ``key_pages`` and ``value_pages`` [P, H_kv, page_size, D], row-contiguous and of one
    dtype, which may differ from that of ``q``; H_q is a multiple of H_kv and D at most 256.
    ``block_table`` int32 [B, max_pages] names the pages of each row in order, padded with -1.
    ``context_lens`` int32 [B] counts the tokens of each row, the new ones included.
    ``query_start_locs`` int32 [B + 1]: row b's queries are
    ``q[query_start_locs[b]:query_start_locs[b + 1]]`` and stand at the last positions of its
    context. A row may have no queries.

    A query at position p sees the positions up to p, or only the last ``window`` of them, itself included.
    ``soft_cap`` turns a score s into ``soft_cap * tanh(s / soft_cap)``. ``sinks`` [H_q] adds one logit per
    query head to the denominator of the softmax. The softmax runs online, in float32.

    Returns [T, H_q, D] in the dtype of ``q``. Slots that no query of a row sees are never read.
    A position whose page id is negative or out of range counts as absent; a query that sees
    nothing, and a row of ``q`` that belongs to no row of the batch, gives zeros.

    Raises ValueError for shapes, dtypes or options that do not fit.
    """
    return _ext.paged_attention(
        q,
        key_pages,
        value_pages,
        block_table,
        context_lens,
        query_start_locs,
        scale=scale,
        window=window,
        soft_cap=soft_cap,
        sinks=sinks,
    )


def linear(
    x: mx.array,
    weight: PackedLinear,
    *,
    norm_weight: mx.array | None = None,
    norm_eps: float = 0.0,
    residual: mx.array | None = None,
) -> mx.array:
    """``residual + (norm(x) @ weight.T + bias)`` on the CPU: ``x`` float32 [..., K] gives float32 [..., N].

    ``norm`` is ``rms_norm`` with ``norm_weight`` float32 [K] and ``norm_eps``; ``residual`` is float32
    [..., N]. Both may be left out, and give bit for bit what operations of their own would.
    float16 and bfloat16 weights are stored as they are and multiplied in float32.
    Raises ValueError for shapes or dtypes that do not fit.
    """
    return _ext.linear(
        x,
        weight.panels,
        weight.bias,
        norm_weight=norm_weight,
        norm_eps=norm_eps,
        residual=residual,
        out_features=weight.out_features,
    )


def quantized_linear(
    x: mx.array,
    weight: PackedQuantized,
    *,
    norm_weight: mx.array | None = None,
    norm_eps: float = 0.0,
    residual: mx.array | None = None,
) -> mx.array:
    """``linear`` with ``dequantize(weight)`` on the CPU: ``x`` float32 [..., K] gives float32 [..., N].

    A weight is ``q * scale + bias`` in float32, so the result is bit for bit that of ``linear`` with the
    dequantised weight. Raises ValueError for shapes or dtypes that do not fit.
    """
    return _ext.quantized_linear(
        x,
        weight.words,
        weight.scales,
        weight.biases,
        weight.bias,
        norm_weight=norm_weight,
        norm_eps=norm_eps,
        residual=residual,
        out_features=weight.out_features,
        group_size=weight.group_size,
        bits=weight.bits,
    )


def embedding(weight: PackedLinear | PackedQuantized, ids: mx.array) -> mx.array:
    """Rows ``ids`` int32 [T] of a packed weight [N, K], as float32 [T, K], on the CPU.

    A tied model keeps one packed matrix for its embedding and its output layer.
    An id outside [0, N) gives a row of zeros.
    """
    if isinstance(weight, PackedLinear):
        return _ext.embedding(weight.panels, ids, out_features=weight.out_features)
    return _ext.quantized_embedding(
        weight.words,
        weight.scales,
        weight.biases,
        ids,
        out_features=weight.out_features,
        group_size=weight.group_size,
        bits=weight.bits,
    )


def rms_norm(x: mx.array, weight: mx.array, eps: float) -> mx.array:
    """``x * weight / sqrt(mean(x^2) + eps)`` over the last axis (arXiv 1910.07467), on the CPU.

    ``x`` float32 [T, D] or [T, H, D]; ``weight`` float32 [D] or, for heads, [H, D].
    The rows ``x[t]`` may lie apart, as in a slice of a wider matrix.
    Raises ValueError for shapes or dtypes that do not fit.
    """
    return _ext.rms_norm(x, weight, eps)


def rotary_heads(  # noqa: PLR0913 (the heads of a layer have this many parts)
    x: mx.array,
    cos: mx.array,
    sin: mx.array,
    *,
    num_heads: int,
    num_kv_heads: int,
    norm_weight: mx.array | None = None,
    norm_eps: float = 0.0,
) -> tuple[mx.array, mx.array, mx.array]:
    """``x`` split into heads q, k and v; those of q and k turned by their angles, on the CPU.

    ``x`` float32 [T, (H_q + 2 H_kv) D], whose rows may lie apart, gives q [T, H_q, D] and k and v
    [T, H_kv, D]. The heads of q and k are normed as in ``rms_norm`` where ``norm_weight`` float32
    [H_q + H_kv, D] is given. Each pair (x[i], x[i + D/2]) is then turned by the angle of ``cos`` and
    ``sin`` float32 [T, D/2] (arXiv 2104.09864). v is a view of ``x``.
    Raises ValueError for shapes or dtypes that do not fit.
    """
    q, k, v = _ext.rotary_heads(
        x,
        cos,
        sin,
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        norm_weight=norm_weight,
        norm_eps=norm_eps,
    )
    return q, k, v


def silu_mul(gate_up: mx.array) -> mx.array:
    """``gate / (1 + exp(-gate)) * up`` (arXiv 2002.05202) on the CPU.

    ``gate_up`` float32 [T, 2 I] holds gate and up side by side; gives float32 [T, I].
    Raises ValueError for shapes or dtypes that do not fit.
    """
    return _ext.silu_mul(gate_up)


def instruction_level() -> str:
    """The level whose CPU kernels run: "plain", "avx2", "avx512" or "neon"."""
    return _ext.instruction_level()


def instruction_levels() -> list[str]:
    """The levels that this build has and this processor can run, weakest first."""
    return _ext.instruction_levels()


def set_instruction_level(level: str) -> None:
    """Run another level's kernels from now on, for tests and measurements.

    Results agree bit for bit within a level and up to rounding between levels.
    Raises ValueError for a level that ``instruction_levels()`` does not hold.
    """
    _ext.set_instruction_level(level)


def num_threads() -> int:
    """Threads that share the work of one CPU operation; at first, the cores this process may run on."""
    return _ext.num_threads()


def set_num_threads(n: int) -> None:
    """Share the work of one CPU operation among ``n`` threads, the calling one included.

    Raises ValueError for n < 1.
    """
    _ext.set_num_threads(n)
