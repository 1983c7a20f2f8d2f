// Eight rows side by side in AVX2 registers; Ints::add_products is the variant's own. See core_bytes.h.

constexpr int kLanes = 8, kTokensAtOnce = 4;

using Vector = __m256i;

static inline Vector load_vector(const void* p) { return load<Vector>(p); }
static inline void store_vector(void* p, Vector v) { std::memcpy(p, &v, sizeof v); }

// The same four bytes in every word.
static inline Vector four_bytes(const int8_t* x) { return _mm256_set1_epi32(load<int>(x)); }

static inline void mix_words(const uint8_t* p, Vector* w) {
    const Vector a = load_vector(p), b = load_vector(p + 32), c = load_vector(p + 64), d = load_vector(p + 96);
    const Vector ab = _mm256_unpacklo_epi32(a, b), cd = _mm256_unpacklo_epi32(c, d);
    const Vector ef = _mm256_unpackhi_epi32(a, b), gh = _mm256_unpackhi_epi32(c, d);
    w[0] = _mm256_unpacklo_epi64(ab, cd);
    w[1] = _mm256_unpackhi_epi64(ab, cd);
    w[2] = _mm256_unpacklo_epi64(ef, gh);
    w[3] = _mm256_unpackhi_epi64(ef, gh);
}

// The first lanes of both, and the second ones: what belongs to the first and the second 16 columns.
static inline Vector first_lanes(Vector a, Vector b) { return _mm256_permute2x128_si256(a, b, 0x20); }
static inline Vector second_lanes(Vector a, Vector b) { return _mm256_permute2x128_si256(a, b, 0x31); }

struct Bytes {
    Vector v;
    explicit Bytes(const int8_t* p) : v(load_vector(p)) {}
    template <int k>
    Vector word() const {
        return _mm256_shuffle_epi32(v, k * 0x55);
    }
};

template <bool centred>
struct Codes {
    Vector v;
    explicit Codes(Vector v) : v(v) {}
};

// Whole numbers; `Products` adds the products of four bytes each to a vector of them.
template <typename Products>
struct EightInts {
    Vector v;
    static EightInts all(int32_t x) { return {_mm256_set1_epi32(x)}; }
    static EightInts first_halves(const EightInts& a, const EightInts& b) { return {first_lanes(a.v, b.v)}; }
    static EightInts second_halves(const EightInts& a, const EightInts& b) { return {second_lanes(a.v, b.v)}; }
    EightInts plus(const EightInts& x) const { return {_mm256_add_epi32(v, x.v)}; }
    EightInts plus_sixteen_times(const EightInts& x) const {
        return {_mm256_add_epi32(v, _mm256_slli_epi32(x.v, 4))};
    }
    template <typename Weights>
    void add_products(const Weights& w, Vector x) {
        v = Products::add(v, w, x);
    }
};

struct Floats {
    __m256 v;
    static Floats load(const float* p) { return {_mm256_loadu_ps(p)}; }
    static Floats all(float x) { return {_mm256_set1_ps(x)}; }
    template <typename Products>
    static Floats of(const EightInts<Products>& x) { return {_mm256_cvtepi32_ps(x.v)}; }
    void store(float* p) const { _mm256_storeu_ps(p, v); }
    Floats times(const Floats& x) const { return {_mm256_mul_ps(v, x.v)}; }
    void add_product(const Floats& a, const Floats& b) { v = _mm256_fmadd_ps(a.v, b.v, v); }
    void subtract_product(const Floats& a, const Floats& b) { v = _mm256_fnmadd_ps(a.v, b.v, v); }
};
