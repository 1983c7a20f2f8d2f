// The activations of a step in the form a matrix wants them: float rows, or whole numbers with scales.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels.h"
#include "thread_pool.h"

namespace lamina {

class Activations {
public:
    // x (tokens, cols). With `levels`, cols is a multiple of 32 and x is not kept.
    Activations(const Variant& v, const float* x, int64_t tokens, int64_t cols, int levels)
        : variant_(v), quantised_(levels != 0) {
        if (quantised_) {
            quantize_all(x, tokens, cols, static_cast<float>(levels));
        } else {
            point_at_rows(x, tokens, cols);
        }
    }

    // y[i][r] = rows[r] . x[chosen[i]] (or x[i] when `chosen` is null) for `count` tokens.
    void dot(const Rows& rows, const int32_t* chosen, int64_t count, float* const* y) const {
        if (quantised_) {
            variant_.dot_i8(rows, pick(tokens_, chosen, count).data(), count, y);
        } else {
            variant_.dot_f32(rows, pick(rows_, chosen, count).data(), count, y);
        }
    }

private:
    template <typename T>
    static std::vector<T> pick(const std::vector<T>& all, const int32_t* chosen, int64_t count) {
        if (chosen == nullptr) return all;
        std::vector<T> out(static_cast<size_t>(count));
        for (size_t i = 0; i < out.size(); ++i) out[i] = all[static_cast<size_t>(chosen[i])];
        return out;
    }

    void quantize_all(const float* x, int64_t tokens, int64_t cols, float levels) {
        const size_t n = static_cast<size_t>(cols), count = static_cast<size_t>(tokens);
        q_.resize(count * n);
        d_.resize(count * n / 32);
        s_.resize(count * n / 16);
        tokens_.resize(count);
        for (size_t t = 0; t < count; ++t) {
            tokens_[t] = {&q_[t * n], &d_[t * n / 32], &s_[t * n / 16]};
        }
        parallel_for((tokens + 7) / 8, [&](int64_t task) {
            for (size_t t = static_cast<size_t>(task) * 8; t < count && t < static_cast<size_t>(task + 1) * 8; ++t) {
                variant_.quantize(x + t * n, cols, levels, &q_[t * n], &d_[t * n / 32], &s_[t * n / 16]);
            }
        });
    }

    // Rows whose length is no multiple of 8 are copied with zeros behind them.
    void point_at_rows(const float* x, int64_t tokens, int64_t cols) {
        const size_t n = static_cast<size_t>(cols), padded = (n + 7) / 8 * 8;
        rows_.resize(static_cast<size_t>(tokens));
        if (n != padded) padded_.assign(rows_.size() * padded, 0.0f);
        for (size_t t = 0; t < rows_.size(); ++t) {
            rows_[t] = x + t * n;
            if (n != padded) {
                std::memcpy(&padded_[t * padded], x + t * n, n * sizeof(float));
                rows_[t] = &padded_[t * padded];
            }
        }
    }

    const Variant& variant_;
    const bool quantised_;
    std::vector<const float*> rows_;
    std::vector<float> padded_;
    std::vector<QuantToken> tokens_;
    std::vector<int16_t> q_;
    std::vector<float> d_, s_;
};

}  // namespace lamina
