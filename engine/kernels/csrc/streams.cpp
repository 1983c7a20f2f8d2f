// Gates over the rows of a step, in pieces small enough that one token keeps several threads busy.
#include "streams.h"

#include <algorithm>
#include <cmath>

#include "linear.h"
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

// Calls f(row) for every row, several to a task.
template <typename F>
void over_rows(int64_t rows, F f) {
    constexpr int64_t kRows = 16;
    parallel_for((rows + kRows - 1) / kRows, [&](int64_t task) {
        for (int64_t r = task * kRows; r < rows && r < (task + 1) * kRows; ++r) f(r);
    });
}

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

}  // namespace

void rms_norm(const float* x, const float* weight, float eps, int64_t rows, int64_t dim, int64_t groups, float* out) {
    over_rows(rows, [&](int64_t r) {
        variant().rms_norm(x + r * dim, weight + r % groups * dim, eps, dim, out + r * dim);
    });
}

void gated_norm(const float* x, const float* weight, float eps, const float* gate, int64_t rows, int64_t dim,
                float* out) {
    over_rows(rows, [&](int64_t r) {
        variant().rms_norm(x + r * dim, weight, eps, dim, out + r * dim);
        variant().sigmoid_gate(out + r * dim, gate + r * dim, dim);
    });
}

void sigmoid_gate(float* x, const float* gate, int64_t count) {
    over_pieces(count, [&](int64_t at, int64_t n) { variant().sigmoid_gate(x + at, gate + at, n); });
}

// A tile of tokens at a time: what lies between the products stays in a cache.
void mix_streams(const StreamMix& m) {
    constexpr int64_t kTile = 128;
    Arena& arena = Arena::begin();
    const int64_t width = m.streams * m.dim, tile = std::min(kTile, m.tokens);
    float* normed = arena.take<float>(static_cast<size_t>(tile * width));
    float* gates = arena.take<float>(static_cast<size_t>(tile * width));
    float* low = arena.take<float>(static_cast<size_t>(tile * m.down.rows));
    for (int64_t first = 0; first < m.tokens; first += tile) {
        const Arena::Scope scope(arena);
        const int64_t count = std::min(tile, m.tokens - first);
        rms_norm(m.h + first * width, m.norm, m.eps, count * m.streams, m.dim, m.streams, normed);
        Product products[2] = {{m.down, low}, {}};
        if (m.inject != nullptr) products[1] = {*m.inject, m.logits + first * m.inject->rows};
        linears(arena, normed, count, products, m.inject != nullptr ? 2 : 1, m.levels);
        over_pieces(count * m.down.rows, [&](int64_t at, int64_t n) {
            variant().scaled_silu(low + at, 1.0f / static_cast<float>(m.streams), n, low + at);
        });
        const Product back{m.up, gates};
        linears(arena, low, count, &back, 1, m.levels);
        const int64_t pieces = (m.dim + kPiece - 1) / kPiece;
        parallel_for(count * pieces, [&](int64_t task) {
            const int64_t t = task / pieces, at = task % pieces * kPiece, from = t * width + at;
            variant().gated_mean(normed + from, gates + from, m.streams, m.dim, std::min(kPiece, m.dim - at),
                                 m.x + (first + t) * m.dim + at);
        });
    }
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
