// Sixteen rows side by side in AVX512 registers, products of bytes by VNNI. See core_bytes.h.

constexpr int kLanes = 16, kTokensAtOnce = 8;
constexpr bool kSignedCodes = false;

using Vector = __m512i;

static inline Vector load_vector(const void* p) { return _mm512_loadu_si512(p); }
static inline void store_vector(void* p, Vector v) { _mm512_storeu_si512(p, v); }

// The same four bytes in every word.
static inline Vector four_bytes(const int8_t* x) { return _mm512_set1_epi32(load<int>(x)); }

static inline void mix_words(const uint8_t* p, Vector* w) {
    const Vector a = load_vector(p), b = load_vector(p + 64), c = load_vector(p + 128), d = load_vector(p + 192);
    const Vector ab = _mm512_unpacklo_epi32(a, b), cd = _mm512_unpacklo_epi32(c, d);
    const Vector ef = _mm512_unpackhi_epi32(a, b), gh = _mm512_unpackhi_epi32(c, d);
    w[0] = _mm512_unpacklo_epi64(ab, cd);
    w[1] = _mm512_unpackhi_epi64(ab, cd);
    w[2] = _mm512_unpacklo_epi64(ef, gh);
    w[3] = _mm512_unpackhi_epi64(ef, gh);
}

// Lanes 0 and 2 of both, and lanes 1 and 3: what belongs to the first and the second 16 columns.
static inline Vector first_lanes(Vector a, Vector b) { return _mm512_shuffle_i32x4(a, b, 0x88); }
static inline Vector second_lanes(Vector a, Vector b) { return _mm512_shuffle_i32x4(a, b, 0xdd); }

struct Bytes {
    Vector v;
    explicit Bytes(const int8_t* p) : v(_mm512_broadcast_i64x4(load<__m256i>(p))) {}
    template <int k>
    Vector word() const {
        return _mm512_shuffle_epi32(v, static_cast<_MM_PERM_ENUM>(k * 0x55));
    }
};

template <bool centred>
struct Codes {
    Vector v;
    explicit Codes(Vector v) : v(v) {}
};

struct Ints {
    Vector v;
    static Ints all(int32_t x) { return {_mm512_set1_epi32(x)}; }
    Ints plus(const Ints& x) const { return {_mm512_add_epi32(v, x.v)}; }
    Ints plus_sixteen_times(const Ints& x) const { return {_mm512_add_epi32(v, _mm512_slli_epi32(x.v, 4))}; }
    static Ints first_halves(const Ints& a, const Ints& b) { return {first_lanes(a.v, b.v)}; }
    static Ints second_halves(const Ints& a, const Ints& b) { return {second_lanes(a.v, b.v)}; }
    template <bool centred>
    void add_products(const Codes<centred>& w, Vector x) {
        v = _mm512_dpbusd_epi32(v, w.v, x);
    }
};

struct Floats {
    __m512 v;
    static Floats load(const float* p) { return {_mm512_loadu_ps(p)}; }
    static Floats all(float x) { return {_mm512_set1_ps(x)}; }
    static Floats of(const Ints& x) { return {_mm512_cvtepi32_ps(x.v)}; }
    void store(float* p) const { _mm512_storeu_ps(p, v); }
    Floats times(const Floats& x) const { return {_mm512_mul_ps(v, x.v)}; }
    void add_product(const Floats& a, const Floats& b) { v = _mm512_fmadd_ps(a.v, b.v, v); }
    void subtract_product(const Floats& a, const Floats& b) { v = _mm512_fnmadd_ps(a.v, b.v, v); }
};
