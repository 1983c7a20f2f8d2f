// Products of float activations with weights of any format. Included by core.h.
//
// Order of sums: a dot product runs over the columns in eight lanes, one accumulator per (row,
// token), and ends in lanes(); nothing depends on how many rows, tokens or threads take part.

constexpr int kRowGroup = 4;    // rows expanded together: enough chains to hide the FMA latency
constexpr int kTokenTile = 64;  // tokens computed against a group of rows before they are expanded again

template <int type>
static void expand_blocks(const uint8_t* row, int64_t column, int count, float* out) {
    using B = Block<type>;
    constexpr int kGroup = B::fine ? 16 : 32;
    alignas(32) uint8_t codes[kStep];
    float scales[kStep / kGroup], mins[kStep / kGroup];
    unpack_step<type>(row, column, count, Sink<32>{codes, scales, mins});
    for (int i = 0; i < count / kGroup; ++i) {
        for (int j = kGroup * i; j < kGroup * (i + 1); ++j) {
            const float value = scales[i] * static_cast<float>(codes[j] - B::offset);
            out[j] = B::has_min ? value - mins[i] : value;
        }
    }
}

// Weights of one step as float32, zero up to the next multiple of 8.
template <int type>
static void expand_step(const uint8_t* row, int64_t column, int count, float* out) {
    if constexpr (type == F32) {
        std::memcpy(out, row + 4 * column, static_cast<size_t>(count) * 4);
    } else if constexpr (type == F16) {
        const uint8_t* halves = row + 2 * column;
        const int whole = count / 8 * 8;
        halves_to_floats(halves, whole, out);
        for (int j = whole; j < count; ++j) out[j] = f16(halves + 2 * j);
    } else if constexpr (type == BF16) {
        for (int j = 0; j < count; ++j) {
            const uint32_t bits = static_cast<uint32_t>(u16(row + 2 * (column + j))) << 16;
            std::memcpy(out + j, &bits, 4);
        }
    } else {
        expand_blocks<type>(row, column, count, out);
    }
    if constexpr (type == F32 || type == F16 || type == BF16) {
        for (int j = count; j % 8; ++j) out[j] = 0.0f;
    }
}

// acc[t][r] += w[r] . x[t] over `count` columns (a multiple of 8), for kTokens tokens at once.
template <int kTokens>
static inline void multiply(const float (*w)[kStep], const float* const* x, int64_t column,
                            int count, float (*acc)[kRowGroup][8]) {
    Vec sum[kTokens][kRowGroup];
    for (int t = 0; t < kTokens; ++t)
        for (int r = 0; r < kRowGroup; ++r) sum[t][r] = Vec::load(acc[t][r]);
    for (int j = 0; j < count; j += 8) {
        Vec weights[kRowGroup];
        for (int r = 0; r < kRowGroup; ++r) weights[r] = Vec::load(w[r] + j);
        for (int t = 0; t < kTokens; ++t) {
            const Vec values = Vec::load(x[t] + column + j);
            for (int r = 0; r < kRowGroup; ++r) sum[t][r].add_product(weights[r], values);
        }
    }
    for (int t = 0; t < kTokens; ++t)
        for (int r = 0; r < kRowGroup; ++r) sum[t][r].store(acc[t][r]);
}

template <int type>
static void dot_f32_tile(const Rows& rows, int64_t first, int num_rows, const float* const* x,
                         int tokens, float* const* y) {
    alignas(32) float acc[kTokenTile][kRowGroup][8] = {};
    alignas(32) float w[kRowGroup][kStep];
    for (int64_t column = 0; column < rows.cols; column += kStep) {
        const int count = static_cast<int>(rows.cols - column < kStep ? rows.cols - column : kStep);
        const size_t ahead = step_ahead<type>(column, rows.row_bytes, kRowGroup);
        for (int r = 0; r < kRowGroup; ++r) {  // a short last group computes its last row again
            const int64_t row = rows.first + first + (r < num_rows ? r : num_rows - 1);
            const uint8_t* data = rows.data + static_cast<size_t>(row) * rows.row_bytes;
            fetch_ahead<type, 1>(data + ahead);
            expand_step<type>(data, column, count, w[r]);
        }
        const int padded = (count + 7) / 8 * 8;
        int t = 0;
        for (; t + 4 <= tokens; t += 4) multiply<4>(w, x + t, column, padded, acc + t);
        for (; t + 2 <= tokens; t += 2) multiply<2>(w, x + t, column, padded, acc + t);
        for (; t < tokens; ++t) multiply<1>(w, x + t, column, padded, acc + t);
    }
    for (int t = 0; t < tokens; ++t)
        for (int r = 0; r < num_rows; ++r) y[t][rows.first + first + r] = lanes(acc[t][r]);
}

// A tile of tokens meets all rows before the next one, so that it stays in the cache.
static void dot_f32(const Rows& rows, const float* const* x, int64_t tokens, float* const* y) {
    for (int64_t t = 0; t < tokens; t += kTokenTile) {
        const int count = static_cast<int>(tokens - t < kTokenTile ? tokens - t : kTokenTile);
        for (int64_t r = 0; r < rows.count; r += kRowGroup) {
            const int num_rows = static_cast<int>(rows.count - r < kRowGroup ? rows.count - r : kRowGroup);
            switch (rows.type) {
#define X(type) \
    case type: dot_f32_tile<type>(rows, r, num_rows, x + t, count, y + t); break;
                X(F32) X(F16) X(BF16) LAMINA_QUANTISED(X)
#undef X
            }
        }
    }
}

static void expand(int type, const uint8_t* row, int64_t cols, float* out) {
    alignas(32) float step[kStep];
    for (int64_t column = 0; column < cols; column += kStep) {
        const int count = static_cast<int>(cols - column < kStep ? cols - column : kStep);
        switch (type) {
#define X(type) \
    case type: expand_step<type>(row, column, count, step); break;
            X(F32) X(F16) X(BF16) LAMINA_QUANTISED(X)
#undef X
        }
        std::memcpy(out + column, step, static_cast<size_t>(count) * 4);
    }
}
