// Gates over the rows of a step, in pieces small enough that one token keeps several threads busy.
#include "streams.h"

#include <algorithm>
#include <cmath>

#include "kernels.h"
#include "thread_pool.h"

namespace lamina {
namespace {

constexpr int64_t kPiece = 1024;  // values of one task

// Calls f(first, count) for the pieces of `count` values.
template <typename F>
void over_pieces(int64_t count, F f) {
    parallel_for((count + kPiece - 1) / kPiece, [&](int64_t task) {
        f(task * kPiece, std::min(kPiece, count - task * kPiece));
    });
}

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

}  // namespace

void scaled_silu(const float* x, float scale, int64_t count, float* out) {
    over_pieces(count, [&](int64_t at, int64_t n) { variant().scaled_silu(x + at, scale, n, out + at); });
}

void sigmoid_gate(float* x, const float* gate, int64_t count) {
    over_pieces(count, [&](int64_t at, int64_t n) { variant().sigmoid_gate(x + at, gate + at, n); });
}

void gated_mean(const float* x, const float* gates, int64_t tokens, int64_t streams, int64_t dim,
                float* out) {
    const int64_t pieces = (dim + kPiece - 1) / kPiece;
    parallel_for(tokens * pieces, [&](int64_t task) {
        const int64_t t = task / pieces, at = task % pieces * kPiece;
        const int64_t from = t * streams * dim + at;
        variant().gated_mean(x + from, gates + from, streams, dim, std::min(kPiece, dim - at),
                             out + t * dim + at);
    });
}

void gated_add(float* acc, const float* y, const float* logits, int64_t tokens, int64_t streams,
               int64_t dim, float scale, float gain) {
    parallel_for(tokens, [&](int64_t t) {
        for (int64_t c = 0; c < streams; ++c) {
            const int64_t row = t * streams + c;
            const double gate = sigmoid(static_cast<double>(logits[row]) * static_cast<double>(scale));
            variant().add_scaled(static_cast<float>(static_cast<double>(gain) * gate), y + t * dim, dim,
                                 acc + row * dim);
        }
    });
}

void ngram_gates(const float* keys, const float* queries, int64_t rows, int64_t dim, float* out) {
    parallel_for(rows, [&](int64_t r) {
        const double s = static_cast<double>(variant().dot(keys + r * dim, queries + r * dim, dim)) /
                         std::sqrt(static_cast<double>(dim));
        // Written so that NaN stays NaN.
        const double size = std::fabs(s) < 1e-6 ? 1e-6 : std::fabs(s);
        const double sign = s == 0.0 ? 0.0 : std::copysign(1.0, s);
        out[r] = static_cast<float>(sigmoid(sign * std::sqrt(size)));
    });
}

}  // namespace lamina
