// The AVX2 variant: AVX2, FMA and F16C.
#include <immintrin.h>

#include <cmath>
#include <cstring>

#include "grid_tables.h"
#include "kernels.h"

namespace lamina {
namespace avx2 {

#define LAMINA_NAME "avx2"
#include "unpack.h"

// Eight float lanes.
struct Vec {
    __m256 v;
    static Vec zero() { return {_mm256_setzero_ps()}; }
    static Vec all(float x) { return {_mm256_set1_ps(x)}; }
    static Vec load(const float* p) { return {_mm256_loadu_ps(p)}; }
    void store(float* p) const { _mm256_storeu_ps(p, v); }
    void add_product(const Vec& a, const Vec& b) { v = _mm256_fmadd_ps(a.v, b.v, v); }
};

static inline float lanes(const float* v) {
    return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}

// sum += scale * d * (q . x) of 32 weights; madd adds neighbours, so lane i holds products 2i and
// 2i + 1 of a half.
template <bool fine>
static inline void dot_chunk(const Chunk& c, const int16_t* x, float d, Vec& sum) {
    const auto load = [](const int16_t* p) {
        return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    };
    const __m256i one = _mm256_madd_epi16(load(c.q), load(x));
    const __m256i two = _mm256_madd_epi16(load(c.q + 16), load(x + 16));
    if (fine) {
        const __m256 a = _mm256_set1_ps(c.scale[0] * d), b = _mm256_set1_ps(c.scale[1] * d);
        sum.v = _mm256_fmadd_ps(_mm256_cvtepi32_ps(one), a, sum.v);
        sum.v = _mm256_fmadd_ps(_mm256_cvtepi32_ps(two), b, sum.v);
    } else {
        const __m256 a = _mm256_set1_ps(c.scale[0] * d);
        sum.v = _mm256_fmadd_ps(_mm256_cvtepi32_ps(_mm256_add_epi32(one, two)), a, sum.v);
    }
}

// `count` is a multiple of 8; x need not be aligned.
static inline void halves_to_floats(const uint8_t* x, int64_t count, float* out) {
    for (int64_t j = 0; j < count; j += 8) {
        const __m128i h = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x + 2 * j));
        _mm256_storeu_ps(out + j, _mm256_cvtph_ps(h));
    }
}

static void floats_to_halves(const float* x, int64_t count, uint16_t* out) {
    for (int64_t j = 0; j < count; j += 8) {
        const __m128i h = _mm256_cvtps_ph(_mm256_loadu_ps(x + j), _MM_FROUND_TO_NEAREST_INT);
        _mm_storeu_si128(reinterpret_cast<__m128i*>(out + j), h);
    }
}

#include "core.h"

}  // namespace avx2

extern const Variant* const kAvx2;
const Variant* const kAvx2 = &avx2::kVariant;

}  // namespace lamina
