// Operations that carry a state along each sequence of a step; see engine/kernels/ops/recurrent.py.
#pragma once

#include <cstdint>

namespace lamina {

// Rows offsets[i] .. offsets[i + 1] - 1 belong to the sequence whose state is number slots[i].
struct SpanRows {
    const int32_t* offsets;
    const int32_t* slots;
    int64_t count;
};

struct ConvBatch {
    const float* x;       // (tokens, channels)
    const float* kernel;  // (taps, channels)
    float* state;         // (slots, (taps - 1) * dilation, channels), oldest first
    float* out;           // (tokens, channels)
    SpanRows spans;
    int64_t channels, taps, dilation;
};
void causal_conv(const ConvBatch& batch);

struct DeltaBatch {
    const float* qkv;      // (tokens, 2 * key_heads * key_dim + heads * value_dim)
    const float* beta;     // (tokens, heads)
    const float* alpha;    // (tokens, heads)
    const float* decay;    // (heads,)
    const float* dt_bias;  // (heads,)
    float* state;          // (slots, heads, key_dim, value_dim)
    float* out;            // (tokens, heads, value_dim)
    SpanRows spans;
    int64_t tokens, key_heads, heads, key_dim, value_dim;
};
void delta_rule(const DeltaBatch& batch);

}  // namespace lamina
