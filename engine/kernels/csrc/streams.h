// Gates over the rows of a step; see engine/kernels/ops/streams.py for shapes.
#pragma once

#include <cstdint>

namespace lamina {

void scaled_silu(const float* x, float scale, int64_t count, float* out);
void sigmoid_gate(float* x, const float* gate, int64_t count);
void gated_mean(const float* x, const float* gates, int64_t tokens, int64_t streams, int64_t dim,
                float* out);
void gated_add(float* acc, const float* y, const float* logits, int64_t tokens, int64_t streams,
               int64_t dim, float scale, float gain);
void ngram_gates(const float* keys, const float* queries, int64_t rows, int64_t dim, float* out);

}  // namespace lamina
