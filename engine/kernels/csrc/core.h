// The kernels of one instruction-set variant. Included once per variant file, inside its namespace,
// after `Vec` (eight float lanes) and `dot_chunk` have been defined for the instruction set.
//
// Order of sums: a dot product runs over the columns in eight lanes, one accumulator per (row,
// token), and ends in lanes(); nothing depends on how many rows, tokens or threads take part.

constexpr int kRowGroup = 4;       // rows decoded together: enough chains to hide the FMA latency
constexpr int kStep = 256;         // columns decoded at a time
constexpr int kChunks = kStep / 32;

// exp(x) for x in [-87, 88], relative error below 2e-7: 2^n times a polynomial on [-ln2/2, ln2/2].
static inline float exp_near(float x) {
    x = x < -87.0f ? -87.0f : x > 88.0f ? 88.0f : x;
    const float shifted = x * 1.44269504f + 12582912.0f;  // rounds to a whole number in the mantissa
    const float n = shifted - 12582912.0f;
    const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    int32_t exponent;
    std::memcpy(&exponent, &shifted, 4);
    const uint32_t bits = static_cast<uint32_t>(exponent - 0x4B400000 + 127) << 23;
    float power;
    std::memcpy(&power, &bits, 4);
    return p * power;
}

template <int type>
static void unpack_step(const uint8_t* row, int64_t column, int count, Chunk* chunks) {
    using B = Block<type>;
    const uint8_t* block = row + column / B::elements * B::bytes;
    for (int done = 0; done < count; done += B::elements) {
        B::unpack(block, chunks + done / 32);
        block += B::bytes;
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
        Chunk chunks[kChunks];
        unpack_step<type>(row, column, count, chunks);
        for (int i = 0; i < count / 32; ++i) {
            const Chunk& c = chunks[i];
            for (int j = 0; j < 32; ++j) {
                const float value = c.scale[j / 16] * static_cast<float>(c.q[j]);
                out[32 * i + j] = Block<type>::has_min ? value - c.min[j / 16] : value;
            }
        }
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
        for (int r = 0; r < kRowGroup; ++r) {  // a short last group computes its last row again
            const int64_t row = first + (r < num_rows ? r : num_rows - 1);
            expand_step<type>(rows.data + row * static_cast<int64_t>(rows.row_bytes), column, count, w[r]);
        }
        const int padded = (count + 7) / 8 * 8;
        int t = 0;
        for (; t + 2 <= tokens; t += 2) multiply<2>(w, x + t, column, padded, acc + t);
        for (; t < tokens; ++t) multiply<1>(w, x + t, column, padded, acc + t);
    }
    for (int t = 0; t < tokens; ++t)
        for (int r = 0; r < num_rows; ++r) y[t][first + r] = lanes(acc[t][r]);
}

template <int type>
static void dot_i8_tile(const Rows& rows, int64_t first, int num_rows, const QuantToken* x,
                        int tokens, float* const* y) {
    using B = Block<type>;
    alignas(32) float acc[kTokenTile][kRowGroup][8] = {};
    float low[kTokenTile][kRowGroup] = {};
    Chunk chunks[kRowGroup][kChunks];
    for (int64_t column = 0; column < rows.cols; column += kStep) {
        const int count = static_cast<int>(rows.cols - column < kStep ? rows.cols - column : kStep);
        for (int r = 0; r < kRowGroup; ++r) {
            const int64_t row = first + (r < num_rows ? r : num_rows - 1);
            unpack_step<type>(rows.data + row * static_cast<int64_t>(rows.row_bytes), column, count, chunks[r]);
        }
        for (int t = 0; t < tokens; ++t) {
            Vec sum[kRowGroup];
            for (int r = 0; r < kRowGroup; ++r) sum[r] = Vec::load(acc[t][r]);
            for (int i = 0; i < count / 32; ++i) {
                const int64_t at = column / 32 + i;
                const int16_t* q = x[t].q + 32 * at;
                const float d = x[t].d[at];
                for (int r = 0; r < kRowGroup; ++r) dot_chunk<B::fine>(chunks[r][i], q, d, sum[r]);
                if constexpr (B::has_min) {
                    for (int r = 0; r < kRowGroup; ++r) {
                        low[t][r] += chunks[r][i].min[0] * x[t].s[2 * at];
                        low[t][r] += chunks[r][i].min[1] * x[t].s[2 * at + 1];
                    }
                }
            }
            for (int r = 0; r < kRowGroup; ++r) sum[r].store(acc[t][r]);
        }
    }
    for (int t = 0; t < tokens; ++t)
        for (int r = 0; r < num_rows; ++r) y[t][first + r] = lanes(acc[t][r]) - low[t][r];
}

// Calls f<type>() for a run-time type.
#define LAMINA_QUANTISED(X)                                                                    \
    X(Q4_0) X(Q4_1) X(Q5_0) X(Q5_1) X(Q8_0) X(Q1_0) X(Q2_0) X(Q2_K) X(Q3_K) X(Q4_K) X(Q5_K)    \
    X(Q6_K) X(IQ2_XXS) X(IQ2_XS) X(IQ2_S) X(IQ3_XXS) X(IQ3_S) X(IQ1_S) X(IQ1_M) X(IQ4_NL)      \
    X(IQ4_XS) X(MXFP4) X(NVFP4) X(TQ1_0) X(TQ2_0)

static Layout layout(int type) {
    switch (type) {
        case F32: return {1, 4};
        case F16: case BF16: return {1, 2};
#define X(type) \
    case type: return {Block<type>::elements, Block<type>::bytes};
        LAMINA_QUANTISED(X)
#undef X
    }
    return {0, 0};
}

template <typename Tile>
static void over_tiles(const Rows& rows, int64_t tokens, Tile tile) {
    for (int64_t r = 0; r < rows.count; r += kRowGroup) {
        const int num_rows = static_cast<int>(rows.count - r < kRowGroup ? rows.count - r : kRowGroup);
        for (int64_t t = 0; t < tokens; t += kTokenTile) {
            const int count = static_cast<int>(tokens - t < kTokenTile ? tokens - t : kTokenTile);
            tile(r, num_rows, t, count);
        }
    }
}

static void dot_f32(const Rows& rows, const float* const* x, int64_t tokens, float* const* y) {
    over_tiles(rows, tokens, [&](int64_t r, int num_rows, int64_t t, int count) {
        switch (rows.type) {
#define X(type) \
    case type: return dot_f32_tile<type>(rows, r, num_rows, x + t, count, y + t);
            X(F32) X(F16) X(BF16) LAMINA_QUANTISED(X)
#undef X
        }
    });
}

static void dot_i8(const Rows& rows, const QuantToken* x, int64_t tokens, float* const* y) {
    over_tiles(rows, tokens, [&](int64_t r, int num_rows, int64_t t, int count) {
        switch (rows.type) {
#define X(type) \
    case type: return dot_i8_tile<type>(rows, r, num_rows, x + t, count, y + t);
            LAMINA_QUANTISED(X)
#undef X
        }
    });
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

// Blocks of smaller values become zeros: levels / most would overflow.
constexpr float kQuantisedLeast = 1e-35f;

static void quantize(const float* x, int64_t cols, float levels, int16_t* q, float* d, float* s) {
    for (int64_t i = 0; i < cols / 32; ++i) {
        const float* v = x + 32 * i;
        float most = 0.0f, poison = 0.0f;  // poison: 0, or NaN when a value is not finite
        for (int j = 0; j < 32; ++j) {
            most = std::fabs(v[j]) > most ? std::fabs(v[j]) : most;
            poison += v[j] * 0.0f;
        }
        if (poison != 0.0f || most < kQuantisedLeast) {  // no codes can say it: NaN, or nothing
            std::memset(q + 32 * i, 0, 32 * sizeof(int16_t));
            d[i] = s[2 * i] = s[2 * i + 1] = poison;
            continue;
        }
        d[i] = most / levels;
        const float inverse = levels / most;
        for (int h = 0; h < 2; ++h) {
            int sum = 0;
            for (int j = 16 * h; j < 16 * h + 16; ++j) {
                // Adding and taking away 1.5 * 2^23 rounds to the nearest whole number.
                const float rounded = (v[j] * inverse + 12582912.0f) - 12582912.0f;
                q[32 * i + j] = static_cast<int16_t>(rounded);
                sum += static_cast<int>(rounded);
            }
            s[2 * i + h] = d[i] * static_cast<float>(sum);
        }
    }
}

static float dot_plain(const float* a, const float* b, int64_t count) {
    Vec sum = Vec::zero();
    for (int64_t j = 0; j < count; j += 8) sum.add_product(Vec::load(a + j), Vec::load(b + j));
    alignas(32) float out[8];
    sum.store(out);
    return lanes(out);
}

static void rms_norm(const float* x, const float* weight, float eps, int64_t dim, float* out) {
    alignas(32) float part[8] = {};
    for (int64_t j = 0; j < dim; ++j) part[j % 8] += x[j] * x[j];
    const float scale = 1.0f / std::sqrt(lanes(part) / static_cast<float>(dim) + eps);
    for (int64_t j = 0; j < dim; ++j) out[j] = x[j] * scale * weight[j];
}

static void swiglu(const float* gate, const float* up, int64_t count, float* out) {
    for (int64_t j = 0; j < count; ++j) {
        // Below -87 the gate is shut; exp_near stops there and would leave it ajar.
        const float silu = gate[j] < -87.0f ? 0.0f : gate[j] / (1.0f + exp_near(-gate[j]));
        out[j] = silu * up[j];
    }
}

// exp(x) for x that are at most 0, or not finite; what float32 cannot tell from 0 is 0.
static inline float exp_below(float x) { return x < -87.0f ? 0.0f : exp_near(x); }

// x becomes exp(x - most), most its maximum; returns the sum, taken in eight lanes.
static float exponentials(float* x, int64_t count, float* most) {
    float top = x[0];
    for (int64_t j = 1; j < count; ++j) top = x[j] > top ? x[j] : top;
    for (int64_t j = 0; j < count; ++j) x[j] = exp_below(x[j] - top);
    alignas(32) float part[8] = {};
    for (int64_t j = 0; j < count; ++j) part[j % 8] += x[j];
    *most = top;
    return lanes(part);
}

static void softmax(float* x, int64_t count) {
    float most;
    const float inverse = 1.0f / exponentials(x, count, &most);
    for (int64_t j = 0; j < count; ++j) x[j] *= inverse;
}

// Calls emit(h, q[h] . key) for every row of q, four at a time; each sum is that of dot_plain.
template <typename Emit>
static inline void dot_heads(const float* q, int64_t heads, const float* key, int64_t dim, Emit emit) {
    int64_t h = 0;
    for (; h + 4 <= heads; h += 4) {
        const float* rows = q + h * dim;
        Vec sum[4] = {Vec::zero(), Vec::zero(), Vec::zero(), Vec::zero()};
        for (int64_t j = 0; j < dim; j += 8) {
            const Vec k = Vec::load(key + j);
            for (int i = 0; i < 4; ++i) sum[i].add_product(Vec::load(rows + i * dim + j), k);
        }
        alignas(32) float out[8];
        for (int i = 0; i < 4; ++i) {
            sum[i].store(out);
            emit(h + i, lanes(out));
        }
    }
    for (; h < heads; ++h) emit(h, dot_plain(q + h * dim, key, dim));
}

// A row of a pool as float32; `buffer` is used when the pool holds halves.
static inline const float* pool_row(const void* pool, bool half, int64_t offset, int64_t count,
                                    float* buffer) {
    if (!half) return static_cast<const float*>(pool) + offset;
    halves_to_floats(static_cast<const uint8_t*>(pool) + 2 * offset, count, buffer);
    return buffer;
}

#include "core_attention.h"
#include "core_index.h"
#include "core_streams.h"
#include "core_recurrent.h"

static const Variant kVariant = {LAMINA_NAME, layout,
                                 dot_f32,     dot_i8,      quantize,
                                 expand,      rms_norm,    swiglu,      softmax,
                                 attend_part, merge_parts, score_blocks, floats_to_halves,
                                 scaled_silu, sigmoid_gate, gated_mean,  add_scaled,
                                 dot_any,     convolve,    delta_rule};
