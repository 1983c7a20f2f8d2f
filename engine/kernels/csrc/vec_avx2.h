// What every variant with AVX2, FMA and F16C has: eight float lanes and conversions of halves.

struct Vec {
    __m256 v;
    static Vec zero() { return {_mm256_setzero_ps()}; }
    static Vec all(float x) { return {_mm256_set1_ps(x)}; }
    static Vec load(const float* p) { return {_mm256_loadu_ps(p)}; }
    void store(float* p) const { _mm256_storeu_ps(p, v); }
    void add_product(const Vec& a, const Vec& b) { v = _mm256_fmadd_ps(a.v, b.v, v); }
};

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
