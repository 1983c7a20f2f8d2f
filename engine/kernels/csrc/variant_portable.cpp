// The portable variant: plain C++ that any compiler vectorises as it can.
#include <cmath>
#include <cstring>

#include "grid_tables.h"
#include "kernels.h"

namespace lamina {
namespace portable {

#define LAMINA_NAME "portable"
#include "unpack.h"

// Eight float lanes.
struct Vec {
    float v[8];
    static Vec zero() { return Vec{{}}; }
    static Vec all(float x) { return Vec{{x, x, x, x, x, x, x, x}}; }
    static Vec load(const float* p) {
        Vec out;
        std::memcpy(out.v, p, sizeof out.v);
        return out;
    }
    void store(float* p) const { std::memcpy(p, v, sizeof v); }
    void add_product(const Vec& a, const Vec& b) {
        for (int i = 0; i < 8; ++i) v[i] += a.v[i] * b.v[i];
    }
};

static inline float lanes(const float* v) {
    return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}

// sum += scale * d * (q . x) of 32 weights, in pairs of neighbours: lane i holds products 2i, 2i + 1
// of both halves.
template <bool fine>
static inline void dot_chunk(const Chunk& c, const int16_t* x, float d, Vec& sum) {
    for (int i = 0; i < 8; ++i) {
        const int one = c.q[2 * i] * x[2 * i] + c.q[2 * i + 1] * x[2 * i + 1];
        const int two = c.q[16 + 2 * i] * x[16 + 2 * i] + c.q[17 + 2 * i] * x[17 + 2 * i];
        if (fine) {
            sum.v[i] += static_cast<float>(one) * (c.scale[0] * d);
            sum.v[i] += static_cast<float>(two) * (c.scale[1] * d);
        } else {
            sum.v[i] += static_cast<float>(one + two) * (c.scale[0] * d);
        }
    }
}

// `count` is a multiple of 8; x need not be aligned.
static inline void halves_to_floats(const uint8_t* x, int64_t count, float* out) {
    for (int64_t j = 0; j < count; ++j) out[j] = f16(x + 2 * j);
}

// Rounds to nearest, ties to even, as the hardware does.
static inline uint16_t float_to_half(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    const uint32_t sign = bits >> 16 & 0x8000;
    bits &= 0x7fffffff;
    if (bits >= 0x47800000) {  // too large, infinite or not a number
        return static_cast<uint16_t>(sign | (bits > 0x7f800000 ? 0x7e00 : 0x7c00));
    }
    if (bits < 0x38800000) {  // subnormal: let the adder round
        float magnitude;
        std::memcpy(&magnitude, &bits, 4);
        magnitude += 0.5f;
        std::memcpy(&bits, &magnitude, 4);
        return static_cast<uint16_t>(sign | (bits - 0x3f000000));
    }
    bits += 0xc8000fff + (bits >> 13 & 1);
    return static_cast<uint16_t>(sign | bits >> 13);
}

static void floats_to_halves(const float* x, int64_t count, uint16_t* out) {
    for (int64_t j = 0; j < count; ++j) out[j] = float_to_half(x[j]);
}

#include "core.h"

}  // namespace portable

extern const Variant* const kPortable;
const Variant* const kPortable = &portable::kVariant;

}  // namespace lamina
