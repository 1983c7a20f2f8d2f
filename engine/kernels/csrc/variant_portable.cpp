// The portable variant: plain C++ that any compiler vectorises as it can.
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

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

// Eight rows side by side; see core_bytes.h.
constexpr int kLanes = 8, kTokensAtOnce = 4;
constexpr bool kSignedCodes = false;

struct Vector {
    uint8_t bytes[4 * kLanes];
};

static inline Vector load_vector(const void* p) { return load<Vector>(p); }
static inline void store_vector(void* p, const Vector& v) { std::memcpy(p, &v, sizeof v); }

// The same four bytes in every word.
static inline Vector four_bytes(const int8_t* x) {
    Vector out;
    for (int r = 0; r < kLanes; ++r) std::memcpy(out.bytes + 4 * r, x, 4);
    return out;
}

// Words k and 4 + k of rows 0-3 (or 4-7), of which p holds 32 bytes each.
static inline void mix_words(const uint8_t* p, Vector* w) {
    for (int k = 0; k < 4; ++k) {
        for (int r = 0; r < kLanes; ++r) std::memcpy(w[k].bytes + 4 * r, p + r % 4 * 32 + r / 4 * 16 + 4 * k, 4);
    }
}

// The first lanes of both, and the second ones: what belongs to the first and the second 16 columns.
static inline Vector join_lanes(const uint8_t* a, const uint8_t* b) {
    Vector out;
    std::memcpy(out.bytes, a, 16);
    std::memcpy(out.bytes + 16, b, 16);
    return out;
}
static inline Vector first_lanes(const Vector& a, const Vector& b) { return join_lanes(a.bytes, b.bytes); }
static inline Vector second_lanes(const Vector& a, const Vector& b) { return join_lanes(a.bytes + 16, b.bytes + 16); }

struct Bytes {
    const int8_t* p;
    explicit Bytes(const int8_t* p) : p(p) {}
    template <int k>
    Vector word() const {
        Vector out;
        for (int r = 0; r < kLanes; ++r) std::memcpy(out.bytes + 4 * r, p + r / 4 * 16 + 4 * k, 4);
        return out;
    }
};

template <bool centred>
struct Codes {
    Vector v;
    explicit Codes(const Vector& v) : v(v) {}
};

struct Ints {
    int32_t v[kLanes];
    static Ints all(int32_t x) { return {{x, x, x, x, x, x, x, x}}; }
    static Ints first_halves(const Ints& a, const Ints& b) {
        return {{a.v[0], a.v[1], a.v[2], a.v[3], b.v[0], b.v[1], b.v[2], b.v[3]}};
    }
    static Ints second_halves(const Ints& a, const Ints& b) {
        return {{a.v[4], a.v[5], a.v[6], a.v[7], b.v[4], b.v[5], b.v[6], b.v[7]}};
    }
    Ints plus(const Ints& x) const {
        Ints out;
        for (int r = 0; r < kLanes; ++r) out.v[r] = v[r] + x.v[r];
        return out;
    }
    Ints plus_sixteen_times(const Ints& x) const {
        Ints out;
        for (int r = 0; r < kLanes; ++r) out.v[r] = v[r] + 16 * x.v[r];
        return out;
    }
    template <bool centred>
    void add_products(const Codes<centred>& w, const Vector& x) {
        for (int r = 0; r < kLanes; ++r) {
            int32_t sum = 0;
            for (int i = 4 * r; i < 4 * r + 4; ++i) sum += w.v.bytes[i] * static_cast<int8_t>(x.bytes[i]);
            v[r] += sum;
        }
    }
};

struct Floats {
    float v[kLanes];
    static Floats all(float x) { return {{x, x, x, x, x, x, x, x}}; }
    static Floats load(const float* p) {
        Floats out;
        std::memcpy(out.v, p, sizeof out.v);
        return out;
    }
    static Floats of(const Ints& x) {
        Floats out;
        for (int r = 0; r < kLanes; ++r) out.v[r] = static_cast<float>(x.v[r]);
        return out;
    }
    void store(float* p) const { std::memcpy(p, v, sizeof v); }
    Floats times(const Floats& x) const {
        Floats out;
        for (int r = 0; r < kLanes; ++r) out.v[r] = v[r] * x.v[r];
        return out;
    }
    void add_product(const Floats& a, const Floats& b) {
        for (int r = 0; r < kLanes; ++r) v[r] = std::fma(a.v[r], b.v[r], v[r]);
    }
    void subtract_product(const Floats& a, const Floats& b) {
        for (int r = 0; r < kLanes; ++r) v[r] = std::fma(-a.v[r], b.v[r], v[r]);
    }
};

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
