// Steps that several block formats unpack with, for the instruction set of the variant that includes
// them; every version gives the same numbers. Included by unpack.h.
//
// V16, V32 and F8 are vectors that GCC and Clang lower to whatever the target has; intrinsics remain
// where plain operators cannot say it.

using V16 = uint8_t __attribute__((vector_size(16)));
using V32 = uint8_t __attribute__((vector_size(32)));
using H8 = uint16_t __attribute__((vector_size(16)));
using H16 = uint16_t __attribute__((vector_size(32)));
using W8 = uint32_t __attribute__((vector_size(32)));
using F8 = float __attribute__((vector_size(32)));

template <typename T>
static inline T load(const void* p) {
    T v;
    std::memcpy(&v, p, sizeof v);
    return v;
}

static inline uint16_t u16(const uint8_t* p) { return load<uint16_t>(p); }
static inline uint32_t u32(const uint8_t* p) { return load<uint32_t>(p); }
static inline uint64_t u64(const uint8_t* p) { return load<uint64_t>(p); }

#if defined(__AVX2__) && defined(__F16C__)

static inline float half_to_float(uint16_t h) { return _cvtsh_ss(h); }

// Byte i as number i, the bytes unsigned or signed.
static inline F8 unsigned8(uint64_t bytes) {
    const __m128i v = _mm_cvtsi64_si128(static_cast<long long>(bytes));
    return reinterpret_cast<F8>(_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(v)));
}

static inline F8 signed8(uint64_t bytes) {
    const __m128i v = _mm_cvtsi64_si128(static_cast<long long>(bytes));
    return reinterpret_cast<F8>(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(v)));
}

// From memory each is a load that repeats it and, but for the first, a blend.
static inline V32 quad(uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
    const auto all = [](uint64_t x) { return _mm256_set1_epi64x(static_cast<long long>(x)); };
    const __m256i ab = _mm256_blend_epi32(all(a), all(b), 0x0c), cd = _mm256_blend_epi32(all(c), all(d), 0xc0);
    return reinterpret_cast<V32>(_mm256_blend_epi32(ab, cd, 0xf0));
}

// The low nibbles of sixteen bytes, then the high ones.
static inline V32 nibbles(const uint8_t* p) {
    const __m128i v = load<__m128i>(p);
    const __m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(v), _mm_srli_epi16(v, 4), 1);
    return reinterpret_cast<V32>(_mm256_and_si256(both, _mm256_set1_epi8(15)));
}

// table[index], for indices below 16.
static inline V32 lookup(const uint8_t* table, V32 index) {
    const __m256i values = _mm256_broadcastsi128_si256(load<__m128i>(table));
    return reinterpret_cast<V32>(_mm256_shuffle_epi8(values, reinterpret_cast<__m256i>(index)));
}

// Bit i as byte i: `value` or 0.
static inline V32 bits_to_bytes(uint32_t bits, uint8_t value) {
#if defined(__AVX512BW__) && defined(__AVX512VL__)
    return reinterpret_cast<V32>(_mm256_maskz_set1_epi8(bits, static_cast<char>(value)));
#else
    const __m256i byte = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i bit = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201));
    const __m256i spread = _mm256_shuffle_epi8(_mm256_set1_epi32(static_cast<int>(bits)), byte);
    const __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(spread, bit), bit);
    return reinterpret_cast<V32>(_mm256_and_si256(set, _mm256_set1_epi8(static_cast<char>(value))));
#endif
}

// Four weights of two bits to a byte, lowest first: 8 bytes become 32 codes.
static inline V32 crumbs(uint64_t bytes) {
    const __m256i all = _mm256_set1_epi64x(static_cast<long long>(bytes));
#if defined(__AVX512VBMI__) && defined(__AVX512VL__)
    const __m256i place = _mm256_setr_epi64x(0x0e0c0a0806040200, 0x1e1c1a1816141210,
                                             0x2e2c2a2826242220, 0x3e3c3a3836343230);
    return reinterpret_cast<V32>(
        _mm256_and_si256(_mm256_multishift_epi64_epi8(place, all), _mm256_set1_epi8(3)));
#else
    const __m256i byte = _mm256_setr_epi64x(0x0101010100000000, 0x0303030302020202,
                                            0x0505050504040404, 0x0707070706060606);
    const __m256i spread = _mm256_shuffle_epi8(all, byte);
    // Weights 2 and 3 of a byte come down by four bits; then weights 1 and 3 still have two to go.
    const __m256i down = _mm256_blend_epi16(spread, _mm256_srli_epi16(spread, 4), 0xaa);
    const __m256i kept = _mm256_and_si256(down, _mm256_set1_epi16(0x0c03));
    const __m128i value = _mm_setr_epi8(0, 1, 2, 3, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0);
    return reinterpret_cast<V32>(_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(value), kept));
#endif
}

// 64 plus or minus a lattice's magnitudes; a set bit of `signs` means minus.
static inline V32 signed_lattice(V32 lattice, uint32_t signs) {
    const __m256i grid = reinterpret_cast<__m256i>(lattice), middle = _mm256_set1_epi8(64);
#if defined(__AVX512BW__) && defined(__AVX512VL__)
    return reinterpret_cast<V32>(_mm256_mask_sub_epi8(_mm256_add_epi8(middle, grid), signs, middle, grid));
#else
    const __m256i minus = reinterpret_cast<__m256i>(bits_to_bytes(signs, 0xff));
    return reinterpret_cast<V32>(
        _mm256_add_epi8(middle, _mm256_sub_epi8(_mm256_xor_si256(grid, minus), minus)));
#endif
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

// Byte i as number i, the bytes unsigned or signed.
static inline F8 unsigned8(uint64_t bytes) {
    F8 out;
    for (int i = 0; i < 8; ++i) out[i] = static_cast<float>(static_cast<uint8_t>(bytes >> 8 * i));
    return out;
}

static inline F8 signed8(uint64_t bytes) {
    F8 out;
    for (int i = 0; i < 8; ++i) out[i] = static_cast<float>(static_cast<int8_t>(bytes >> 8 * i));
    return out;
}

static inline V32 quad(uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
    const uint64_t all[4] = {a, b, c, d};
    return load<V32>(all);
}

// The low nibbles of sixteen bytes, then the high ones.
static inline V32 nibbles(const uint8_t* p) {
    V32 out;
    for (int i = 0; i < 16; ++i) {
        out[i] = p[i] & 15;
        out[i + 16] = static_cast<uint8_t>(p[i] >> 4);
    }
    return out;
}

// table[index], for indices below 16.
static inline V32 lookup(const uint8_t* table, V32 index) {
    V32 out;
    for (int i = 0; i < 32; ++i) out[i] = table[index[i]];
    return out;
}

// Bit i as byte i: `value` or 0.
static inline V32 bits_to_bytes(uint32_t bits, uint8_t value) {
    V32 out;
    for (int i = 0; i < 32; ++i) out[i] = bits >> i & 1 ? value : 0;
    return out;
}

// Four weights of two bits to a byte, lowest first: 8 bytes become 32 codes.
static inline V32 crumbs(uint64_t bytes) {
    V32 out;
    for (int i = 0; i < 32; ++i) out[i] = static_cast<uint8_t>(bytes >> 2 * i & 3);
    return out;
}

// 64 plus or minus a lattice's magnitudes; a set bit of `signs` means minus.
static inline V32 signed_lattice(V32 lattice, uint32_t signs) {
    const V32 minus = bits_to_bytes(signs, 0xff);
    return 64 + ((lattice ^ minus) - minus);
}

#endif

static inline float f16(const uint8_t* p) { return half_to_float(u16(p)); }

// The bits `width` wide at bit `from` of every byte, moved to bit `to`. Bytes move in pairs, which
// every target can shift; what crosses from one byte to the next is masked away.
template <int from, int width, int to = 0>
static inline V32 field(V32 bytes) {
    using Pairs = uint16_t __attribute__((vector_size(32)));
    const Pairs pairs = reinterpret_cast<Pairs>(bytes);
    constexpr int left = from < to ? to - from : 0, right = from < to ? 0 : from - to;
    return reinterpret_cast<V32>(pairs << left >> right) & static_cast<uint8_t>(((1 << width) - 1) << to);
}

// 32 numbers of 16 bits from their low and high bytes.
static inline void join_bytes(V32 low, V32 high, uint16_t* out) {
    const V32 one = __builtin_shufflevector(low, high, 0, 32, 1, 33, 2, 34, 3, 35, 4, 36, 5, 37, 6, 38, 7, 39, 8, 40, 9,
                                            41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47);
    const V32 two = __builtin_shufflevector(low, high, 16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53, 22, 54, 23, 55,
                                            24, 56, 25, 57, 26, 58, 27, 59, 28, 60, 29, 61, 30, 62, 31, 63);
    std::memcpy(out, &one, 32);
    std::memcpy(out + 16, &two, 32);
}

// The four fields of three bits in each of four or eight words of 16 bits: of words 0-3 or 4-7.
static inline H16 threes(H8 words, bool second) {
    const H16 each = second ? __builtin_shufflevector(words, words, 4, 4, 4, 4, 5, 5, 5, 5, 6, 6, 6, 6, 7, 7, 7, 7)
                            : __builtin_shufflevector(words, words, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    // Multiplying moves each field to the top.
    const H16 up = {1 << 13, 1 << 10, 1 << 7, 1 << 4, 1 << 13, 1 << 10, 1 << 7, 1 << 4,
                    1 << 13, 1 << 10, 1 << 7, 1 << 4, 1 << 13, 1 << 10, 1 << 7, 1 << 4};
    return each * up >> 13;
}

// Numbers below 2^16 as floats.
static inline F8 floats(H8 x) {
    using Signed = int32_t __attribute__((vector_size(32)));
    return __builtin_convertvector(__builtin_convertvector(x, Signed), F8);
}

// Two words as one of 64 bits.
static inline uint64_t pair(uint32_t first, uint32_t second) {
    return first | static_cast<uint64_t>(second) << 32;
}

// The same byte eight times.
static inline uint64_t eight(unsigned byte) { return byte * 0x0101010101010101u; }

// Eight nibbles to eight bytes, and eight fields of two bits; lowest first.
static inline uint64_t spread_nibbles(uint64_t x) {
    x = (x | x << 16) & 0x0000ffff0000ffff;
    x = (x | x << 8) & 0x00ff00ff00ff00ff;
    return (x | x << 4) & 0x0f0f0f0f0f0f0f0f;
}

static inline uint64_t spread_crumbs(uint64_t x) {
    x = (x | x << 24) & 0x000000ff000000ff;
    x = (x | x << 12) & 0x000f000f000f000f;
    return (x | x << 6) & 0x0303030303030303;
}

// Every byte, at most 63, less 32 as a signed byte.
static inline uint64_t less_32(uint64_t bytes) { return ((bytes | eight(0x80)) - eight(32)) ^ eight(0x80); }

// Bytes of seven sign bits each to eight, four to a word: the last makes the number of minuses even.
static inline W8 even_signs(W8 bytes) {
    W8 odd = bytes ^ bytes >> 4;
    odd ^= odd >> 2;
    odd ^= odd >> 1;
    return bytes | (odd & 0x01010101) << 7;
}

// Four fields of seven bits, touching, to four bytes in each word.
static inline W8 spread_sevens(W8 x) {
    return (x & 0x7f) | (x << 1 & 0x7f00) | (x << 2 & 0x7f0000) | (x << 3 & 0x7f000000);
}
