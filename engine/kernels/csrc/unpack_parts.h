// Steps that several block formats unpack with, for the instruction set of the variant that includes
// them; every version gives the same whole numbers. Included by unpack.h.

static inline uint16_t u16(const uint8_t* p) {
    uint16_t v;
    std::memcpy(&v, p, 2);
    return v;
}

static inline uint32_t u32(const uint8_t* p) {
    uint32_t v;
    std::memcpy(&v, p, 4);
    return v;
}

#if defined(__AVX2__) && defined(__F16C__)

static inline float half_to_float(uint16_t h) { return _cvtsh_ss(h); }

static inline __m128i load16(const uint8_t* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }

// Sixteen signed bytes to 16-bit numbers.
static inline void store_wide(__m128i bytes, int16_t* q) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(q), _mm256_cvtepi8_epi16(bytes));
}

static inline __m128i low_nibbles(__m128i bytes) { return _mm_and_si128(bytes, _mm_set1_epi8(15)); }
static inline __m128i high_nibbles(__m128i bytes) { return low_nibbles(_mm_srli_epi16(bytes, 4)); }

// The same bits of each of 32 bytes, which become 32 weights.
class Fields {
public:
    Fields(const uint8_t* bytes, int shift, int mask) {
        const __m256i all = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes));
        const __m256i moved = _mm256_srl_epi16(all, _mm_cvtsi32_si128(shift));
        v_ = _mm256_and_si256(moved, _mm256_set1_epi8(static_cast<char>(mask)));
    }
    // Puts the fields of `high` above these, which are `bits` wide.
    Fields& below(const Fields& high, int bits) {
        v_ = _mm256_or_si256(v_, _mm256_sll_epi16(high.v_, _mm_cvtsi32_si128(bits)));
        return *this;
    }
    void store(int offset, int16_t* q) const {
        const __m256i less = _mm256_sub_epi8(v_, _mm256_set1_epi8(static_cast<char>(offset)));
        store_wide(_mm256_castsi256_si128(less), q);
        store_wide(_mm256_extracti128_si256(less, 1), q + 16);
    }

private:
    __m256i v_;
};

// Low nibbles give the first 16 weights, high nibbles the next 16.
static inline void nibbles(const uint8_t* qs, int16_t* q, int offset) {
    const __m128i bytes = load16(qs), o = _mm_set1_epi8(static_cast<char>(offset));
    store_wide(_mm_sub_epi8(low_nibbles(bytes), o), q);
    store_wide(_mm_sub_epi8(high_nibbles(bytes), o), q + 16);
}

// The same, as indices of a table of 16 values.
static inline void looked_up(const uint8_t* qs, const int8_t* table, int16_t* q) {
    const __m128i bytes = load16(qs), values = load16(reinterpret_cast<const uint8_t*>(table));
    store_wide(_mm_shuffle_epi8(values, low_nibbles(bytes)), q);
    store_wide(_mm_shuffle_epi8(values, high_nibbles(bytes)), q + 16);
}

// Four weights of two bits to a byte, lowest first, less one. Multiplying moves each weight's bits
// to the same place.
static inline void crumbs(const uint8_t* qs, int16_t* q) {
    const __m128i four = _mm_set_epi8(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0);
    const __m256i places = _mm256_set1_epi64x(0x0001000400100040);
    for (int half = 0; half < 2; ++half) {
        const __m128i bytes = _mm_shuffle_epi8(_mm_cvtsi32_si128(static_cast<int>(u32(qs + 4 * half))), four);
        const __m256i moved = _mm256_srli_epi16(_mm256_mullo_epi16(_mm256_cvtepu8_epi16(bytes), places), 6);
        const __m256i weights = _mm256_and_si256(moved, _mm256_set1_epi16(3));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(q + 16 * half),
                            _mm256_sub_epi16(weights, _mm256_set1_epi16(1)));
    }
}

// One entry of a lattice of eight, with a bit mask of signs.
static inline void lattice8(uint64_t grid, unsigned signs, int16_t* q) {
    const __m128i bits = _mm_set_epi16(128, 64, 32, 16, 8, 4, 2, 1);
    const __m128i set = _mm_and_si128(_mm_set1_epi16(static_cast<short>(signs)), bits);
    const __m128i minus = _mm_cmpeq_epi16(set, bits);
    const __m128i values = _mm_cvtepi8_epi16(_mm_cvtsi64_si128(static_cast<long long>(grid)));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(q), _mm_sub_epi16(_mm_xor_si128(values, minus), minus));
}

// One-bit formats: grid values -1, 0, 1 shifted by an eighth. In eighths they are whole numbers.
static inline void eighths(uint64_t grid, int delta, int16_t* q) {
    const __m128i values = _mm_cvtepi8_epi16(_mm_cvtsi64_si128(static_cast<long long>(grid)));
    const __m128i shift = _mm_set1_epi16(static_cast<short>(delta));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(q), _mm_add_epi16(_mm_slli_epi16(values, 3), shift));
}

#else

static inline float half_to_float(uint16_t h) {
    const uint32_t sign = static_cast<uint32_t>(h & 0x8000) << 16;
    const uint32_t exponent = (h >> 10) & 0x1f;
    uint32_t mantissa = h & 0x3ff;
    uint32_t bits;
    if (exponent == 31) {
        bits = sign | 0x7f800000 | mantissa << 13;
    } else if (exponent != 0) {
        bits = sign | (exponent + 112) << 23 | mantissa << 13;
    } else if (mantissa == 0) {
        bits = sign;
    } else {  // subnormal: normalise
        uint32_t shift = 0;
        while (!(mantissa & 0x400)) {
            mantissa <<= 1;
            ++shift;
        }
        bits = sign | (113 - shift) << 23 | (mantissa & 0x3ff) << 13;
    }
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
}

// The same bits of each of 32 bytes, which become 32 weights.
class Fields {
public:
    Fields(const uint8_t* bytes, int shift, int mask) {
        for (int j = 0; j < 32; ++j) v_[j] = static_cast<uint8_t>(bytes[j] >> shift & mask);
    }
    // Puts the fields of `high` above these, which are `bits` wide.
    Fields& below(const Fields& high, int bits) {
        for (int j = 0; j < 32; ++j) v_[j] = static_cast<uint8_t>(v_[j] | high.v_[j] << bits);
        return *this;
    }
    void store(int offset, int16_t* q) const {
        for (int j = 0; j < 32; ++j) q[j] = static_cast<int16_t>(v_[j] - offset);
    }

private:
    uint8_t v_[32];
};

// Low nibbles give the first 16 weights, high nibbles the next 16.
static inline void nibbles(const uint8_t* qs, int16_t* q, int offset) {
    for (int j = 0; j < 16; ++j) {
        q[j] = static_cast<int16_t>((qs[j] & 15) - offset);
        q[j + 16] = static_cast<int16_t>((qs[j] >> 4) - offset);
    }
}

// The same, as indices of a table of 16 values.
static inline void looked_up(const uint8_t* qs, const int8_t* table, int16_t* q) {
    for (int j = 0; j < 16; ++j) {
        q[j] = table[qs[j] & 15];
        q[j + 16] = table[qs[j] >> 4];
    }
}

// Four weights of two bits to a byte, lowest first, less one.
static inline void crumbs(const uint8_t* qs, int16_t* q) {
    for (int j = 0; j < 32; ++j) q[j] = static_cast<int16_t>((qs[j / 4] >> 2 * (j % 4) & 3) - 1);
}

// One entry of a lattice of eight, with a bit mask of signs.
static inline void lattice8(uint64_t grid, unsigned signs, int16_t* q) {
    for (int j = 0; j < 8; ++j) {
        const int v = static_cast<int8_t>(grid >> (8 * j));
        q[j] = static_cast<int16_t>(signs >> j & 1 ? -v : v);
    }
}

// One-bit formats: grid values -1, 0, 1 shifted by an eighth. In eighths they are whole numbers.
static inline void eighths(uint64_t grid, int delta, int16_t* q) {
    for (int j = 0; j < 8; ++j) {
        q[j] = static_cast<int16_t>(8 * static_cast<int8_t>(grid >> (8 * j)) + delta);
    }
}

#endif

static inline void fifth_bits(uint32_t high, int16_t* q) {
    for (int j = 0; j < 32; ++j) q[j] = static_cast<int16_t>(q[j] + ((high >> j & 1) << 4));
}

// Two entries of a lattice of four as one of eight.
static inline uint64_t pair(uint32_t first, uint32_t second) {
    return first | static_cast<uint64_t>(second) << 32;
}
