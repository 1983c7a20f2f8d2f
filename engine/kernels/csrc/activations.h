// The activations of an operation in the form a matrix wants them: float rows, or bytes with scales.
#pragma once

#include <algorithm>
#include <cstring>

#include "arena.h"
#include "kernels.h"
#include "thread_pool.h"

namespace lamina {

// Some tokens as one operand of a product.
struct Operand {
    const float* const* rows;  // one per token, when not rounded
    QuantBlock block;
    bool rounded;

    // y[t][weights.first + r] = weights[r] . token t for tokens first .. first + count - 1.
    void dot(const Rows& weights, int64_t first, int64_t count, float* const* y) const {
        if (rounded) {
            variant().dot_bytes(weights, block, first, count, y);
        } else {
            variant().dot_f32(weights, rows + first, count, y + first);
        }
    }

    // As many tokens as the cache of a core holds, so that they stay there for all rows.
    int64_t tile(int64_t cols) const {
        constexpr int64_t kCache = 1 << 19, kLeast = 4 * kTileTokens;
        const int64_t width = rounded ? (block.wide ? 2 : 1) : 4;
        return std::max(kLeast, kCache / (cols * width) / kTileTokens * kTileTokens);
    }
};

inline bool is_rounded(int type, int levels) { return levels != 0 && !is_float(type); }

// Room for `tokens` tokens of `cols` activations. Behind the codes lies as much as a tile may read on.
inline QuantBlock make_block(Arena& arena, int64_t tokens, int64_t cols, const QuantForm& form, int levels) {
    const size_t chunks = static_cast<size_t>(tokens * (cols / 32)), groups = chunks * static_cast<size_t>(form.parts);
    const bool wide = levels > kLevelsByte;
    QuantBlock out;
    out.tokens = tokens;
    out.wide = wide;
    out.codes = arena.take<int8_t>((chunks + kTileTokens) * (wide ? 64 : 32));
    out.start = arena.take<int32_t>(groups);
    out.d = arena.take<float>(chunks);
    out.s = form.has_min ? arena.take<float>(groups) : nullptr;
    return out;
}

// Token `from` of `source` becomes token `to` of `out`.
inline void copy_token(const QuantBlock& source, int64_t from, int64_t cols, const QuantForm& form, int64_t to,
                       const QuantBlock& out) {
    const size_t width = source.wide ? 64 : 32;
    for (int64_t i = 0; i < cols / 32; ++i) {
        const int64_t a = i * source.tokens + from, b = i * out.tokens + to;
        std::memcpy(out.codes + static_cast<size_t>(b) * width, source.codes + static_cast<size_t>(a) * width, width);
        out.d[b] = source.d[a];
    }
    for (int64_t i = 0; i < cols / 32 * form.parts; ++i) {
        const int64_t a = i * source.tokens + from, b = i * out.tokens + to;
        out.start[b] = source.start[a];
        if (form.has_min) out.s[b] = source.s[a];
    }
}

// x (tokens, cols) for a matrix of `type`. Rounded, cols is a multiple of 32 and x is not kept; rows
// of floats whose length is no multiple of 8 are copied with zeros behind them.
inline Operand operand(Arena& arena, const float* x, int64_t tokens, int64_t cols, int type, int levels) {
    Operand out{};
    out.rounded = is_rounded(type, levels);
    if (out.rounded) {
        const Variant& v = variant();
        const QuantForm form = v.layout(type).form;
        out.block = make_block(arena, tokens, cols, form, levels);
        parallel_for((tokens + 7) / 8, [&](int64_t task) {
            const int64_t first = task * 8, count = std::min<int64_t>(8, tokens - first);
            v.quantize(x + first * cols, cols, cols, form, first, count, out.block);
        });
        return out;
    }
    const int64_t padded = (cols + 7) / 8 * 8;
    const float** rows = arena.take<const float*>(static_cast<size_t>(tokens));
    float* copies = cols != padded ? arena.take<float>(static_cast<size_t>(tokens * padded)) : nullptr;
    for (int64_t t = 0; t < tokens; ++t) {
        rows[t] = x + t * cols;
        if (copies != nullptr) {
            float* copy = copies + t * padded;
            std::memcpy(copy, x + t * cols, static_cast<size_t>(cols) * sizeof(float));
            std::fill(copy + cols, copy + padded, 0.0f);
            rows[t] = copy;
        }
    }
    out.rows = rows;
    return out;
}

}  // namespace lamina
