// The compiled module metal._ext. Its documented face is metal/ops.py.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "cpu/instruction_level.h"
#include "cpu/thread_pool.h"
#include "embedding.h"
#include "empty.h"
#include "linear.h"
#include "machine_probe.h"
#include "paged_attention.h"
#include "paged_cache_update.h"
#include "quantized_linear.h"
#include "rms_norm.h"
#include "rotary_heads.h"
#include "silu_mul.h"

namespace nb = nanobind;
using namespace nb::literals;
using namespace octavo;

using OptionalArray = std::optional<mx::array>;

namespace {

void bind_paged_ops(nb::module_& m) {
  m.def(
      "empty", [](const std::vector<int>& shape, mx::Dtype dtype) { return empty({shape.begin(), shape.end()}, dtype); },
      "shape"_a, "dtype"_a);
  m.def("paged_cache_update", &paged_cache_update, "pages"_a, "values"_a, "slot_mapping"_a);
  m.def(
      "paged_attention",
      [](const mx::array& q, const mx::array& key_pages, const mx::array& value_pages, const mx::array& block_table,
         const mx::array& context_lens, const mx::array& query_start_locs, float scale, std::optional<int> window,
         std::optional<float> soft_cap, const OptionalArray& sinks) {
        return paged_attention(q, key_pages, value_pages, block_table, context_lens, query_start_locs,
                               {.scale = scale, .window = window, .soft_cap = soft_cap}, sinks);
      },
      "q"_a, "key_pages"_a, "value_pages"_a, "block_table"_a, "context_lens"_a, "query_start_locs"_a, nb::kw_only(),
      "scale"_a, "window"_a.none(), "soft_cap"_a.none(), "sinks"_a.none());
}

void bind_linear_ops(nb::module_& m) {
  m.def(
      "linear",
      [](const mx::array& x, const mx::array& panels, const OptionalArray& bias, const OptionalArray& norm_weight,
         float norm_eps, const OptionalArray& residual, int out_features) {
        return linear(x, panels, {bias, norm_weight, norm_eps, residual}, out_features);
      },
      "x"_a, "panels"_a, "bias"_a.none(), nb::kw_only(), "norm_weight"_a.none(), "norm_eps"_a, "residual"_a.none(),
      "out_features"_a);
  m.def(
      "quantized_linear",
      [](const mx::array& x, const mx::array& words, const mx::array& scales, const mx::array& biases,
         const OptionalArray& bias, const OptionalArray& norm_weight, float norm_eps, const OptionalArray& residual,
         int out_features, int group_size, int bits) {
        return quantized_linear(x, words, scales, biases, {bias, norm_weight, norm_eps, residual}, out_features,
                                {.group_size = group_size, .bits = bits});
      },
      "x"_a, "words"_a, "scales"_a, "biases"_a, "bias"_a.none(), nb::kw_only(), "norm_weight"_a.none(), "norm_eps"_a,
      "residual"_a.none(), "out_features"_a, "group_size"_a, "bits"_a);
  m.def("embedding", &embedding, "panels"_a, "ids"_a, nb::kw_only(), "out_features"_a);
  m.def(
      "quantized_embedding",
      [](const mx::array& words, const mx::array& scales, const mx::array& biases, const mx::array& ids,
         int out_features, int group_size, int bits) {
        return quantized_embedding(words, scales, biases, ids, out_features, {.group_size = group_size, .bits = bits});
      },
      "words"_a, "scales"_a, "biases"_a, "ids"_a, nb::kw_only(), "out_features"_a, "group_size"_a, "bits"_a);
}

void bind_row_ops(nb::module_& m) {
  m.def("rms_norm", &rms_norm, "x"_a, "weight"_a, "eps"_a);
  m.def(
      "rotary_heads",
      [](const mx::array& x, const mx::array& cos, const mx::array& sin, int num_heads, int num_kv_heads,
         const OptionalArray& norm_weight, float norm_eps) {
        return rotary_heads(x, cos, sin, {.num_heads = num_heads, .num_kv_heads = num_kv_heads}, norm_weight,
                            norm_eps);
      },
      "x"_a, "cos"_a, "sin"_a, nb::kw_only(), "num_heads"_a, "num_kv_heads"_a, "norm_weight"_a.none(), "norm_eps"_a);
  m.def("silu_mul", &silu_mul, "gate_up"_a);
}

void set_num_threads(int n) {
  if (n < 1) {
    throw std::invalid_argument("[set_num_threads] expected at least 1 thread, got " + std::to_string(n));
  }
  cpu::thread_pool().resize(n);
}

void bind_machine(nb::module_& m) {
  m.def("instruction_level", &cpu::instruction_level);
  m.def("instruction_levels", &cpu::instruction_levels);
  m.def("set_instruction_level", &cpu::set_instruction_level, "level"_a);
  m.def("num_threads", [] { return cpu::thread_pool().num_threads(); });
  m.def("set_num_threads", &set_num_threads, "n"_a, nb::call_guard<nb::gil_scoped_release>());
}

void bind_probes(nb::module_& m) {
  m.attr("probe_flops") = cpu::kProbeFlops;
  m.def("probe_read", &probe_read, "block_bytes"_a, "num_blocks"_a, "passes"_a, "repeats"_a,
        nb::call_guard<nb::gil_scoped_release>());
  m.def("probe_triad", &probe_triad, "block_bytes"_a, "num_blocks"_a, "repeats"_a,
        nb::call_guard<nb::gil_scoped_release>());
  m.def("probe_fma", &probe_fma, "num_blocks"_a, "rounds"_a, "repeats"_a, nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace

NB_MODULE(_ext, m) {
  m.attr("mlx_version") = OCTAVO_MLX_VERSION;
  bind_paged_ops(m);
  bind_linear_ops(m);
  bind_row_ops(m);
  bind_machine(m);
  bind_probes(m);
}
