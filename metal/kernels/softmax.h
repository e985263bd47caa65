// The online softmax in base 2: a state is the top score, the sum of weights and the weighted values so far.
#ifndef OCTAVO_SOFTMAX_H
#define OCTAVO_SOFTMAX_H

#include "params.h"

// From the product of scaled query and key to the exponent of 2.
inline float score_of(float product, constant AttentionParams& p) {
  return p.score_cap > 0.0f ? p.score_cap * precise::tanh(product) : product;
}

// A finite number to subtract from scores: a row that saw nothing has the top -inf.
inline float base_of(float top) {
  return top == -INFINITY ? 0.0f : top;
}

// log2(e) times the sink of a head; -inf: none.
inline float sink_of(const device float* sinks, int head, constant AttentionParams& p) {
  return p.has_sinks != 0 ? sinks[head] * M_LOG2E_F : -INFINITY;
}

// What turns the weighted values of a state into the result. 0 for a row that saw nothing.
inline float result_scale(float top, float sum, float sink) {
  if (sum == 0.0f) {
    return 0.0f;
  }
  const float base = max(top, sink);
  const float keep = fast::exp2(top - base);
  return keep / (sum * keep + fast::exp2(sink - base));
}

#endif
