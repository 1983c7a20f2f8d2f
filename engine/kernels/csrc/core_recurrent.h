// What moves along a sequence: a short convolution and the gated delta rule. Included by core.h.

// kTaps rows at a time, so that sums stay in registers; `began`: out holds the sum of earlier taps.
template <int kTaps>
static void add_taps(const float* const* rows, const float* kernel, int64_t stride, int64_t count, bool began,
                     float* __restrict out) {
    const float* x[kTaps];
    for (int i = 0; i < kTaps; ++i) x[i] = rows[i];
    for (int64_t j = 0; j < count; ++j) {
        float sum = began ? out[j] : 0.0f;
        for (int i = 0; i < kTaps; ++i) sum += kernel[i * stride + j] * x[i][j];
        out[j] = sum;
    }
}

// out = silu(sum over taps of kernel[i] * rows[i]), taps in order.
static void convolve(const float* const* rows, const float* kernel, int64_t taps, int64_t stride,
                     int64_t count, float* out) {
    int64_t i = 0;
    for (; i + 4 <= taps; i += 4) add_taps<4>(rows + i, kernel + i * stride, stride, count, i > 0, out);
    for (; i < taps; ++i) add_taps<1>(rows + i, kernel + i * stride, stride, count, i > 0, out);
    scaled_silu(out, 1.0f, count, out);
}

// `kGroups` vectors of columns of one head's state over all tokens of a span. A column is a recurrence
// of its own: d = beta (v - g S.k), S = g S + k d, o = S.q; sums run over the rows.
template <typename V, int kGroups>
static void delta_columns(const DeltaTask& t, int64_t column, float* s, int64_t stride) {
    constexpr int kWidth = sizeof(V) / sizeof(float);
    const V zero = V::all(0.0f), minus = V::all(-1.0f);
    for (int64_t token = 0; token < t.tokens; ++token) {
        const float* k = t.k + token * t.key_stride;
        const float* q = t.q + token * t.key_stride;
        const V g = V::all(t.decay[token * t.gate_stride]), beta = V::all(t.beta[token * t.gate_stride]);
        V seen[kGroups], delta[kGroups], out[kGroups];
        for (int c = 0; c < kGroups; ++c) seen[c] = out[c] = zero;
        for (int64_t i = 0; i < t.key_dim; ++i) {
            const V key = V::all(k[i]);
            for (int c = 0; c < kGroups; ++c) seen[c].add_product(key, V::load(s + i * stride + kWidth * c));
        }
        for (int c = 0; c < kGroups; ++c) {
            V kept = zero, error = V::load(t.v + token * t.value_stride + column + kWidth * c);
            kept.add_product(g, seen[c]);
            error.add_product(minus, kept);
            delta[c] = zero;
            delta[c].add_product(beta, error);
        }
        for (int64_t i = 0; i < t.key_dim; ++i) {
            const V key = V::all(k[i]), query = V::all(q[i]);
            for (int c = 0; c < kGroups; ++c) {
                V row = zero;
                row.add_product(g, V::load(s + i * stride + kWidth * c));
                row.add_product(key, delta[c]);
                row.store(s + i * stride + kWidth * c);
                out[c].add_product(query, row);
            }
        }
        for (int c = 0; c < kGroups; ++c) out[c].store(t.out + token * t.out_stride + column + kWidth * c);
    }
}

// A task's columns. Over more than a few tokens they are worked on in a copy: rows of the state lie
// so far apart that they would push each other out of the first-level cache.
static void delta_rule(const DeltaTask& t) {
    alignas(64) float block[kDeltaColumns * 1024];
    const bool copied = t.tokens > 2;
    const size_t row_bytes = static_cast<size_t>(t.columns) * sizeof(float);
    float* s = copied ? block : t.state;
    const int64_t stride = copied ? t.columns : t.state_stride;
    if (copied) {
        for (int64_t i = 0; i < t.key_dim; ++i) std::memcpy(s + i * stride, t.state + i * t.state_stride, row_bytes);
    }
    int64_t column = 0;
    constexpr int64_t kSideBySide = 4 * sizeof(Wide) / sizeof(float);
    for (; column + kSideBySide <= t.columns; column += kSideBySide) {
        delta_columns<Wide, 4>(t, column, s + column, stride);
    }
    for (; column < t.columns; column += 8) delta_columns<Vec, 1>(t, column, s + column, stride);
    if (copied) {
        for (int64_t i = 0; i < t.key_dim; ++i) std::memcpy(t.state + i * t.state_stride, s + i * stride, row_bytes);
    }
}
