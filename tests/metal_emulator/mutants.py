"""Mistakes that someone could make in the kernels; each must be caught.

A mutant replaces a piece of the source, and concerns the kernels of one case.
"""

from dataclasses import dataclass

from tests.metal_emulator.paged_case import AttentionCase, CacheUpdateCase, Case

_BARRIER = "threadgroup_barrier(mem_flags::mem_threadgroup);"

MUTANT_CASES: dict[str, Case] = {
    "update": CacheUpdateCase((3, -1, 0, 23, 24, 7)),
    "decode": AttentionCase((1, 1, 1), (0, 5, 37), page_size=5),
    "decode many": AttentionCase((1,), (300,), page_size=32, q_heads=2, kv_heads=1),
    "decode limits": AttentionCase((1,), (21,), window=18, sinks=True, absent=((0, 1),)),
    "split": AttentionCase((1, 1), (520, 2), page_size=32, q_heads=2, kv_heads=1),
    "prefill": AttentionCase((18,), (35,), page_size=5),
    "ragged": AttentionCase((2, 3, 1), (12, 3, 9), stray=2),
    "prefill limits": AttentionCase((9,), (40,), window=18, sinks=True, absent=((0, 3),)),
}


@dataclass(frozen=True, slots=True)
class Mutant:
    """`at`: which of the places where `old` stands, from 0."""

    what: str
    case: str
    old: str
    new: str
    at: int = 0

    def apply(self, source: str) -> str:
        parts = source.split(self.old)
        if len(parts) < self.at + 2:
            raise ValueError(f"{self.what}: the source does not hold {self.old!r}")
        head = self.old.join(parts[: self.at + 1])
        return head + self.new + self.old.join(parts[self.at + 1 :])


# Mistakes that the emulator must see.
RUN_MUTANTS = (
    # paged_cache_update
    Mutant(
        "writes at the token's index, not its slot", "update", "slot_page(slot,", "slot_page(token,"
    ),
    Mutant("writes padding", "update", "slot < 0 || page", "page"),
    Mutant("trusts every slot", "update", " || page >= p.num_pages", ""),
    Mutant(
        "lost head stride in the source",
        "update",
        "static_cast<long>(head) * p.value_head_stride +",
        "static_cast<long>(head) +",
    ),
    Mutant(
        "offset of the next slot",
        "update",
        "slot_offset(slot, p.page_size);",
        "slot_offset(slot + 1, p.page_size);",
    ),
    Mutant("two tokens to one slot", "update", "slot_mapping[token];", "slot_mapping[token / 2];"),
    # decode
    Mutant("no barrier before the merge of SIMD-groups", "decode", _BARRIER, ""),
    Mutant("no barrier before the next head", "decode", _BARRIER, "", 1),
    Mutant("barrier with mem_none", "decode", "mem_flags::mem_threadgroup", "mem_flags::mem_none"),
    Mutant(
        "barrier for device memory only",
        "decode",
        "mem_flags::mem_threadgroup",
        "mem_flags::mem_device",
    ),
    Mutant(
        "barrier of the SIMD-group only",
        "decode many",
        "threadgroup_barrier(mem",
        "simdgroup_barrier(mem",
    ),
    Mutant("barrier under a condition", "decode", _BARRIER, "if (simd == 0) " + _BARRIER),
    Mutant(
        "idle SIMD-groups return before the barrier",
        "decode",
        "  for (int h = 0; h < num_heads; h++) {\n",
        "  if (range.x + static_cast<int>(simd) * 32 >= range.y) {\n    return;\n  }\n"
        "  for (int h = 0; h < num_heads; h++) {\n",
    ),
    Mutant(
        "tail one token too far",
        "decode",
        "return int2(begin, min(begin + share, position + 1));",
        "return int2(begin, begin + share + 1);",
    ),
    Mutant(
        "tail rounded up to the page",
        "decode",
        "const int page = mine < end ? page_at",
        "const int page = mine < (end + p.page_size - 1) / p.page_size * p.page_size ? page_at",
    ),
    Mutant(
        "last token left out",
        "decode",
        "const int page = mine < end ?",
        "const int page = mine < end - 1 ?",
    ),
    Mutant(
        "KV head of another group",
        "decode",
        "query.row, kv_head, begin, end, lane, p);",
        "query.row, first_head % p.num_kv_heads, begin, end, lane, p);",
    ),
    Mutant(
        "query heads interleaved",
        "decode",
        "const int first_head = kv_head * heads_per_kv + first_of_kv;",
        "const int first_head = kv_head + first_of_kv;",
    ),
    Mutant(
        "wrong stride of the block table",
        "decode",
        "(row) * p.max_pages + index",
        "(row) * p.page_size + index",
    ),
    Mutant("no sum over the lanes", "decode", "product = simd_sum(product);", ""),
    Mutant(
        "sum over half of the lanes",
        "decode",
        "product = simd_sum(product);",
        "if (lane < 16) { product = simd_sum(product); }",
    ),
    Mutant(
        "lane asks one too far",
        "decode many",
        "simd_shuffle(page, static_cast<ushort>(i + k))",
        "simd_shuffle(page, static_cast<ushort>(i + k + 1))",
    ),
    Mutant("values not rescaled", "decode many", "state.values[h][i] *= keep;", ""),
    Mutant(
        "sum not rescaled",
        "decode many",
        "float sum = state.sum[h] * keep;",
        "float sum = state.sum[h];",
    ),
    Mutant(
        "empty context divides by zero",
        "decode",
        "  if (sum == 0.0f) {\n    return 0.0f;\n  }\n",
        "",
    ),
    Mutant(
        "every SIMD-group writes the output",
        "decode",
        "d = static_cast<int>(simd * OCTAVO_SIMD_WIDTH + lane); d < D; d += kThreads",
        "d = static_cast<int>(lane); d < D; d += 32",
    ),
    Mutant(
        "half of the output not written",
        "decode",
        "d < D; d += kThreads",
        "d < D / 2; d += kThreads",
    ),
    Mutant(
        "output without the token",
        "decode",
        "(query.token) * p.num_q_heads + first_head;",
        "(0) * p.num_q_heads + first_head;",
    ),
    Mutant(
        "writes into the keys",
        "decode",
        "      load_row<P, D, E>(key, key_pages, element, lane);",
        "      load_row<P, D, E>(key, key_pages, element, lane);\n"
        "      ((device P*)key_pages)[element] = 0;",
    ),
    Mutant(
        "tops of idle SIMD-groups left unset",
        "decode",
        "    if (lane == 0) {\n",
        "    if (lane == 0 && static_cast<int>(simd) * 32 <= query.position) {\n",
    ),
    Mutant("window one too wide", "decode limits", "position - window + 1", "position - window"),
    Mutant(
        "sink forgotten in the sum",
        "decode limits",
        "(sum * keep + fast::exp2(sink - base))",
        "(sum * keep)",
    ),
    Mutant(
        "absent page followed",
        "decode limits",
        "return page < p.num_pages ? page : -1;",
        "return page < p.num_pages ? max(page, 0) : -1;",
    ),
    # merge
    Mutant(
        "a piece left out of the merge",
        "split",
        "s < p.num_splits; s++",
        "s < p.num_splits - 1; s++",
        1,
    ),
    Mutant(
        "wrong stride of the partial results",
        "split",
        "constexpr int kStride = D + OCTAVO_PARTIAL_EXTRA;",
        "constexpr int kStride = D + OCTAVO_PARTIAL_EXTRA - 1;",
    ),
    Mutant(
        "pieces overlap",
        "split",
        "const int begin = first + share * static_cast<int>(split);",
        "const int begin = max(0, first + share * static_cast<int>(split) - 1);",
    ),
    # prefill
    Mutant("no barrier after finding the pages", "prefill", _BARRIER, "", 2),
    Mutant("no barrier after loading K", "prefill", _BARRIER, "", 3),
    Mutant("no barrier before V takes K's place", "prefill", _BARRIER, "", 4),
    Mutant("no barrier after loading V", "prefill", _BARRIER, "", 5),
    Mutant("causal mask one too far", "prefill", "at <= position &&", "at <= position + 1 &&"),
    Mutant("causal mask one too short", "prefill", "at <= position &&", "at < position &&"),
    Mutant(
        "keys not transposed",
        "prefill",
        "tile + (j * 8 + column) * Stride + d * 8 + row;",
        "tile + (j * 8 + row) * Stride + d * 8 + column;",
    ),
    Mutant(
        "row and column of a fragment swapped",
        "prefill",
        "((lane >> 4) << 2) + ((lane >> 1) & 3)",
        "((lane >> 3) & 1) * 4 + (lane & 1) * 2",
    ),
    Mutant(
        "wrong lanes in the sum of a row",
        "prefill",
        "return x + simd_shuffle_xor(x, static_cast<ushort>(8));",
        "return x + simd_shuffle_xor(x, static_cast<ushort>(2));",
    ),
    Mutant(
        "prefill values not rescaled",
        "prefill",
        "values[d] *= keep;",
        "values[d] *= max(keep, 1.0f);",
    ),
    Mutant(
        "rows past the block are written", "prefill", "  if (!present) {\n    return;\n  }\n", ""
    ),
    Mutant(
        "SIMD-groups without rows return early",
        "prefill",
        "  float2 queries[D / 8];",
        "  if (static_cast<int>(simd) * 8 >= block.num_rows) {\n    return;\n  }\n  float2 queries[D / 8];",
    ),
    Mutant(
        "K tile loaded past its end",
        "prefill",
        "i < Keys * D; i += kPrefillThreads",
        "i < Keys * D + D; i += kPrefillThreads",
    ),
    Mutant(
        "48 KB of threadgroup memory",
        "prefill",
        "constexpr int kTile = D > 128 ? 16 : 32;",
        "constexpr int kTile = 256;",
    ),
    Mutant(
        "first token of the row lost",
        "ragged",
        "const int token = block.first_token + query_row",
        "const int token = query_row",
    ),
    Mutant(
        "stray tokens left as they are",
        "ragged",
        "  clear_strays<Q, D>(out, query_start_locs, group, thread_index, p);\n",
        "",
    ),
    Mutant(
        "row found one too early",
        "ragged",
        "rows_per_token, block_rows) <= block",
        "rows_per_token, block_rows) < block",
    ),
    Mutant(
        "absent keys weigh as zeros",
        "prefill limits",
        " && elements[key] >= 0;",
        " && elements[key] >= -1;",
    ),
    Mutant(
        "window forgotten in a tile",
        "prefill limits",
        "at >= first && at <= position",
        "at >= min(first, 0) && at <= position",
    ),
)

# Mistakes that a CPU would not mind: refused by the rules or the gate before anything runs.
TEXT_MUTANTS = (
    Mutant(
        "local pointer without an address space",
        "prefill",
        "const threadgroup P* key = tile",
        "const P* key = tile",
    ),
    Mutant(
        "pointer into another address space",
        "prefill",
        "const threadgroup P* key = tile",
        "const device P* key = tile",
    ),
    Mutant("reference without an address space", "prefill", "thread float& top", "float& top"),
    Mutant(
        "kernel parameter without device",
        "decode",
        "    device R* result [[buffer(7)]]",
        "    R* result [[buffer(7)]]",
    ),
    Mutant(
        "one buffer index twice",
        "decode",
        "device R* result [[buffer(7)]]",
        "device R* result [[buffer(6)]]",
    ),
    Mutant(
        "double",
        "decode",
        "inline float base_of(float top) {",
        "inline float base_of(double top) {",
    ),
    Mutant(
        "literal without f",
        "decode",
        "return top == -INFINITY ? 0.0f : top;",
        "return top == -INFINITY ? 0.0 : top;",
    ),
    Mutant(
        "std::", "decode", "highest = row_max(highest);", "highest = std::max(highest, highest);"
    ),
    Mutant(
        "recursion",
        "decode",
        "return top == -INFINITY ? 0.0f : top;",
        "return top == -INFINITY ? 0.0f : base_of(top);",
    ),
    Mutant(
        "write to constant memory",
        "decode",
        "  const int slot = slot_mapping[token];",
        "  p.num_tokens = 0;\n  const int slot = slot_mapping[token];",
    ),
    Mutant(
        "threadgroup variable in a function",
        "prefill",
        "inline float row_max(float x) {",
        "inline float row_max(float x) {\n  threadgroup float y[1];",
    ),
    Mutant("vector in a parameter struct", "decode", "  int num_rows;\n", "  float3 num_rows;\n"),
    Mutant("non-ASCII text", "decode", "// The page that holds", "// The page \u2013 that holds"),
    Mutant("name that is not declared", "decode", "state.top[h] = top;", "state.top[h] = topp;"),
)
