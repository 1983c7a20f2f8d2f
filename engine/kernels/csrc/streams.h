// Gates over the rows of a step; see engine/kernels/ops/streams.py for shapes.
#pragma once

#include <cstdint>

#include "kernels.h"

namespace lamina {

// Row r is normalised with weight row r % groups.
void rms_norm(const float* x, const float* weight, float eps, int64_t rows, int64_t dim, int64_t groups, float* out);
void gated_norm(const float* x, const float* weight, float eps, const float* gate, int64_t rows, int64_t dim,
                float* out);
void sigmoid_gate(float* x, const float* gate, int64_t count);
void gated_add(float* acc, const float* y, const float* logits, int64_t tokens, int64_t streams,
               int64_t dim, float scale, float gain);

struct StreamMix {
    const float* h;        // (tokens, streams, dim)
    const float* norm;     // (streams, dim)
    float eps;
    Matrix down, up;       // to the bottleneck and back
    const Matrix* inject;  // or null
    int levels;
    int64_t tokens, streams, dim;
    float* x;              // (tokens, dim)
    float* logits;         // (tokens, inject->rows)
};
void mix_streams(const StreamMix& mix);

void ngram_gates(const float* keys, const float* queries, int64_t rows, int64_t dim, float* out);

}  // namespace lamina
