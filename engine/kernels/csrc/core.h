// The kernels of one instruction-set variant. Included once per variant file, inside its namespace,
// after unpack.h, `Vec` (eight float lanes) and what core_bytes.h names have been defined for the
// instruction set.

// The eight lanes of a dot product as one sum.
static inline float lanes(const float* v) {
    return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}

#include "core_steps.h"
#include "core_float.h"
#include "core_bytes.h"

// Floats side by side, as many as a register holds, where lanes do not meet.
using Wide = std::conditional_t<kLanes == 16, Floats, Vec>;

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

static float dot_plain(const float* a, const float* b, int64_t count) {
    Vec sum = Vec::zero();
    for (int64_t j = 0; j < count; j += 8) sum.add_product(Vec::load(a + j), Vec::load(b + j));
    alignas(32) float out[8];
    sum.store(out);
    return lanes(out);
}

static void rms_norm(const float* x, const float* weight, float eps, int64_t dim, float* out) {
    alignas(32) float part[8] = {};
    int64_t j = 0;
    for (; j + 8 <= dim; j += 8) {
        for (int lane = 0; lane < 8; ++lane) part[lane] += x[j + lane] * x[j + lane];
    }
    for (; j < dim; ++j) part[j % 8] += x[j] * x[j];
    const float scale = 1.0f / std::sqrt(lanes(part) / static_cast<float>(dim) + eps);
    for (j = 0; j < dim; ++j) out[j] = x[j] * scale * weight[j];
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
                                 dot_f32,     dot_bytes,   quantize,
                                 expand,      rms_norm,    swiglu,      softmax,
                                 attend_part, merge_parts, score_blocks, floats_to_halves,
                                 scaled_silu, sigmoid_gate, gated_mean,  add_scaled,
                                 dot_any,     convolve,    delta_rule};
