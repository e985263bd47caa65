"""The batches that the kernels are held to, under the emulator and on a device."""

from tests.metal_emulator.numbers import BFLOAT, HALF
from tests.metal_emulator.paged_case import AttentionCase, CacheUpdateCase, Case, Layout

# Kernels are compiled per types, head size and heads per group: cases share them to keep the build small.
CASES: dict[str, Case] = {
    "cache update, padding and foreign slots": CacheUpdateCase((3, -1, 0, 23, 24, 7)),
    "cache update, one token of one head": CacheUpdateCase((5,), kv_heads=1, head_dim=80),
    "cache update, wide head, page of 1": CacheUpdateCase((2, 0), head_dim=300, page_size=1),
    "cache update, bfloat to half": CacheUpdateCase((1, 9, 4), HALF, BFLOAT, page_size=5),
    "cache update, values apart": CacheUpdateCase((3, 9, 4), value_layout=Layout(gap=40)),
    "cache update, bfloat": CacheUpdateCase((17, 2), BFLOAT, BFLOAT, head_dim=96),
    "cache update, half": CacheUpdateCase((0, 31), HALF, HALF, page_size=32),
    "decode, page of 1": AttentionCase((1, 1, 1), (1, 2, 9), page_size=1),
    "decode, page of 5": AttentionCase((1, 1, 1, 1), (4, 5, 6, 33), page_size=5),
    "decode, page of 8": AttentionCase((1, 1, 1, 1), (7, 8, 9, 40)),
    "decode, page of 16": AttentionCase((1, 1), (16, 300), page_size=16),
    "decode, page of 32, a whole pass of all SIMD-groups": AttentionCase(
        (1, 1), (257, 31), page_size=32
    ),
    "decode, a row without queries and one without context": AttentionCase((1, 0, 1), (3, 4, 0)),
    "decode, fewer tokens than rows": AttentionCase((0, 1, 0, 0), (0, 9, 3, 0)),
    "decode, two queries of one row": AttentionCase((2, 0), (12, 0)),
    "decode, queries apart": AttentionCase((1, 1), (12, 5), q_layout=Layout(gap=24)),
    "decode, heads first": AttentionCase((1, 1), (12, 5), q_layout=Layout((1, 0, 2))),
    "decode, window": AttentionCase((1, 1, 1), (3, 12, 40), window=10),
    "decode, soft cap": AttentionCase((1, 1), (12, 40), soft_cap=1.5),
    "decode, sinks": AttentionCase((1, 1, 1), (1, 12, 0), sinks=True),
    "decode, window, soft cap and sinks": AttentionCase(
        (1, 1), (45, 9), window=7, soft_cap=2.0, sinks=True
    ),
    "decode, absent pages": AttentionCase((1, 1), (20, 7), absent=((0, 0), (0, 2), (1, 0))),
    "decode, table too narrow": AttentionCase((1,), (40,), table_width=2),
    "decode, a token of no row": AttentionCase((1, 0, 0), (5, 0, 0), stray=2),
    "decode, no rows of many pages": AttentionCase((0, 0), (0, 0), stray=1),
    "decode, multi-query attention, six heads": AttentionCase(
        (1, 1), (9, 20), HALF, HALF, q_heads=6, kv_heads=1, head_dim=128
    ),
    "decode, three heads a group": AttentionCase(
        (1,), (12,), HALF, HALF, q_heads=6, kv_heads=2, head_dim=128
    ),
    "decode, one head a group, 80 wide": AttentionCase(
        (1, 1), (12, 5), HALF, HALF, kv_heads=4, head_dim=80
    ),
    "decode, 96 wide, bfloat": AttentionCase((1,), (12,), BFLOAT, BFLOAT, head_dim=96),
    "decode, 256 wide, bfloat over half pages": AttentionCase(
        (1,), (12,), BFLOAT, HALF, head_dim=256
    ),
    "split decode": AttentionCase((1, 1), (300, 523), page_size=16, q_heads=2, kv_heads=1),
    "split decode, empty pieces, sinks": AttentionCase(
        (1, 1), (0, 3), q_heads=2, kv_heads=1, sinks=True, table_width=70
    ),
    "split decode, window": AttentionCase(
        (1,), (800,), q_heads=2, kv_heads=1, page_size=32, window=520
    ),
    "split decode among rows": AttentionCase((1, 3), (600, 3), q_heads=2, kv_heads=1, page_size=32),
    "prefill, page of 1": AttentionCase((9,), (9,), page_size=1),
    "prefill, page of 5, chunk at the end": AttentionCase((17,), (70,), page_size=5),
    "prefill, page of 16, ragged": AttentionCase((3, 21, 9), (3, 21, 40), page_size=16),
    "prefill, page of 32, with decode rows": AttentionCase(
        (1, 20, 1, 0, 2), (33, 20, 1, 5, 70), page_size=32
    ),
    "prefill, one row of one query": AttentionCase((1,), (9,), stray=4),
    "prefill, no rows": AttentionCase((), (), stray=3),
    "prefill, stray tokens after many rows": AttentionCase((2, 1, 1), (2, 1, 1), stray=40),
    "prefill, context shorter than the queries": AttentionCase((6,), (4,)),
    "prefill, queries apart": AttentionCase((9, 2), (12, 5), q_layout=Layout(gap=24)),
    "prefill, numbers first": AttentionCase((9, 2), (12, 5), q_layout=Layout((2, 0, 1))),
    "prefill, window": AttentionCase((20, 2), (60, 40), window=9),
    "prefill, soft cap": AttentionCase((9,), (20,), soft_cap=1.5),
    "prefill, sinks": AttentionCase((9, 3), (20, 3), sinks=True),
    "prefill, absent pages": AttentionCase((9, 3), (40, 9), absent=((0, 0), (0, 3), (1, 0))),
    "prefill, table too narrow": AttentionCase((9,), (40,), table_width=2),
    "prefill, multi-query attention, half": AttentionCase(
        (5,), (30,), HALF, HALF, q_heads=6, kv_heads=1, head_dim=128
    ),
    "prefill, one head a group, 80 wide": AttentionCase(
        (9,), (20,), HALF, HALF, kv_heads=4, head_dim=80
    ),
    "prefill, 96 wide, bfloat": AttentionCase((9,), (20,), BFLOAT, BFLOAT, head_dim=96),
    "prefill, 256 wide, bfloat over half pages": AttentionCase(
        (9,), (20,), BFLOAT, HALF, head_dim=256
    ),
    "prefill, 256 wide, float": AttentionCase((5,), (20,), head_dim=256),
}
