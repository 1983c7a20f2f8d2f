// Convolutions and the gated delta rule over the thread pool.
//
// A token's result depends on its sequence's tokens and state alone; how a sequence is cut into
// spans and steps cannot be seen: the same sums run in the same order.
#include "recurrent.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels.h"
#include "thread_pool.h"

namespace lamina {
namespace {

constexpr int64_t kTaskChannels = 2048;
constexpr double kNormEpsilon = 1e-6;  // of the unit vectors; part of the model

// The span that each row belongs to.
std::vector<int32_t> owners(const SpanRows& spans) {
    std::vector<int32_t> owner(static_cast<size_t>(spans.offsets[spans.count]));
    for (int64_t i = 0; i < spans.count; ++i) {
        std::fill(owner.begin() + spans.offsets[i], owner.begin() + spans.offsets[i + 1],
                  static_cast<int32_t>(i));
    }
    return owner;
}

// The last inputs of a span, behind what is left of those before it.
void keep_history(const ConvBatch& b, int64_t span) {
    const int64_t history = (b.taps - 1) * b.dilation;
    const int64_t first = b.spans.offsets[span], count = b.spans.offsets[span + 1] - first;
    const int64_t kept = std::max<int64_t>(0, history - count), taken = history - kept;
    float* state = b.state + b.spans.slots[span] * history * b.channels;
    std::memmove(state, state + taken * b.channels, static_cast<size_t>(kept * b.channels) * sizeof(float));
    std::memcpy(state + kept * b.channels, b.x + (first + count - taken) * b.channels,
                static_cast<size_t>(taken * b.channels) * sizeof(float));
}

// A unit vector of v (dim,), times `scale`.
void normalise(const Variant& variant, const float* v, int64_t dim, float scale, float* out) {
    const double squares = variant.dot(v, v, dim);
    const float factor = static_cast<float>(scale / std::sqrt(squares + kNormEpsilon));
    for (int64_t j = 0; j < dim; ++j) out[j] = v[j] * factor;
}

}  // namespace

void causal_conv(const ConvBatch& b) {
    const Variant& v = variant();
    const int64_t history = (b.taps - 1) * b.dilation;
    const std::vector<int32_t> owner = owners(b.spans);
    const int64_t blocks = (b.channels + kTaskChannels - 1) / kTaskChannels;
    parallel_for(static_cast<int64_t>(owner.size()) * blocks, [&](int64_t task) {
        const int64_t row = task / blocks, channel = task % blocks * kTaskChannels;
        const int64_t span = owner[static_cast<size_t>(row)], first = b.spans.offsets[span];
        const float* state = b.state + b.spans.slots[span] * history * b.channels;
        static thread_local std::vector<const float*> rows;
        rows.resize(static_cast<size_t>(b.taps));
        for (int64_t i = 0; i < b.taps; ++i) {
            const int64_t from = row - first - b.dilation * (b.taps - 1 - i);  // within the span
            const float* x = from >= 0 ? b.x + (first + from) * b.channels : state + (history + from) * b.channels;
            rows[static_cast<size_t>(i)] = x + channel;
        }
        v.convolve(rows.data(), b.kernel + channel, b.taps, b.channels,
                   std::min(kTaskChannels, b.channels - channel), b.out + row * b.channels + channel);
    });
    parallel_for(b.spans.count, [&](int64_t span) { keep_history(b, span); });
}

void delta_rule(const DeltaBatch& b) {
    const Variant& v = variant();
    const int64_t keys = b.key_heads * b.key_dim, width = 2 * keys + b.heads * b.value_dim;
    const size_t per_gate = static_cast<size_t>(b.tokens * b.heads), per_key = static_cast<size_t>(b.tokens * keys);
    std::vector<float> q(per_key), k(per_key), decay(per_gate), beta(per_gate);
    parallel_for(b.tokens, [&](int64_t t) {
        const float scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(b.key_dim)));
        for (int64_t h = 0; h < b.key_heads; ++h) {
            const int64_t at = h * b.key_dim;
            normalise(v, b.qkv + t * width + at, b.key_dim, scale, &q[static_cast<size_t>(t * keys + at)]);
            normalise(v, b.qkv + t * width + keys + at, b.key_dim, 1.0f, &k[static_cast<size_t>(t * keys + at)]);
        }
        for (int64_t h = 0; h < b.heads; ++h) {
            const int64_t at = t * b.heads + h;
            const double step = static_cast<double>(b.alpha[at]) + static_cast<double>(b.dt_bias[h]);
            const double softplus = step > 30.0 ? step : std::log1p(std::exp(step));
            decay[static_cast<size_t>(at)] = static_cast<float>(std::exp(static_cast<double>(b.decay[h]) * softplus));
            beta[static_cast<size_t>(at)] = static_cast<float>(1.0 / (1.0 + std::exp(-static_cast<double>(b.beta[at]))));
        }
    });
    const int64_t blocks = (b.value_dim + kDeltaColumns - 1) / kDeltaColumns;
    parallel_for(b.spans.count * b.heads * blocks, [&](int64_t task) {
        const int64_t column = task % blocks * kDeltaColumns, h = task / blocks % b.heads;
        const int64_t span = task / blocks / b.heads, first = b.spans.offsets[span];
        const size_t key = static_cast<size_t>(first * keys + h % b.key_heads * b.key_dim);
        const size_t gate = static_cast<size_t>(first * b.heads + h);
        const int64_t slot = b.spans.slots[span];
        v.delta_rule({q.data() + key, k.data() + key,
                      b.qkv + first * width + 2 * keys + h * b.value_dim + column,
                      decay.data() + gate, beta.data() + gate,
                      b.state + (slot * b.heads + h) * b.key_dim * b.value_dim + column,
                      b.out + (first * b.heads + h) * b.value_dim + column,
                      b.spans.offsets[span + 1] - first, b.key_dim,
                      std::min(kDeltaColumns, b.value_dim - column), keys, width, b.heads,
                      b.value_dim, b.heads * b.value_dim});
    });
}

}  // namespace lamina
