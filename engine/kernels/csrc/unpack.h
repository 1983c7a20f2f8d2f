// Block formats: from a block's bytes to a byte per weight, with a scale (and a minimum) per group.
//
//   weight = scale * (code - offset) - min     with the same float32 operations as ggml's dequantisation,
//
// so that one unpacker serves the exact float path and the one with rounded activations. Codes are unsigned:
// that is what the instructions for products of bytes want of one side. Included by core.h inside the
// namespace of an instruction-set variant: nothing here may be shared between variants.
// Source: ggml-quants.c (dequantize_row_*) of llama.cpp b11549; Q1_0 and Q2_0 from ggml pull 24448.

#include "unpack_parts.h"

// Where the codes, scales and minima of one row go. 32 codes, or eight scales, are a piece of 32
// bytes; pieces are kGap bytes apart. A group is 32 weights, or 16 where a format is fine.
template <int kGap>
struct Sink {
    uint8_t* codes;
    float* scales;
    float* mins;
    int chunk = 0;  // of 32 weights, the first that a block gives
    int group = 0;  // and its first group

    void put(int index, V32 v) const { std::memcpy(codes + (chunk + index) * kGap, &v, 32); }
    void scale(int index, float v) const { scales[place(group + index)] = v; }
    void min(int index, float v) const { mins[place(group + index)] = v; }
    // Groups 8 * index to 8 * index + 7.
    void scale8(int index, F8 v) const { std::memcpy(scales + place(8 * index), &v, 32); }
    void min8(int index, F8 v) const { std::memcpy(mins + place(8 * index), &v, 32); }

private:
    static int place(int group) { return group / 8 * (kGap / 4) + group % 8; }
};

// `fine`: a scale for 16 weights instead of 32. `has_min`: min may be non-zero.
template <int kElements, int kBytes, int kOffset, bool kFine = false, bool kHasMin = false>
struct Format {
    static constexpr int elements = kElements, bytes = kBytes, offset = kOffset;
    static constexpr bool fine = kFine, has_min = kHasMin;
};

template <int type>
struct Block;

template <>
struct Block<Q4_0> : Format<32, 18, 8> {
    template <typename S>
    static void unpack(const uint8_t* b, S out) {
        out.scale(0, f16(b));
        out.put(0, nibbles(b + 2));
    }
};

template <>
struct Block<Q4_1> : Format<32, 20, 0, false, true> {
    template <typename S>
    static void unpack(const uint8_t* b, S out) {
        out.scale(0, f16(b));
        out.min(0, -f16(b + 2));
        out.put(0, nibbles(b + 4));
    }
};

template <>
struct Block<Q5_0> : Format<32, 22, 16> {
    template <typename S>
    static void unpack(const uint8_t* b, S out) {
        out.scale(0, f16(b));
        out.put(0, nibbles(b + 6) | bits_to_bytes(u32(b + 2), 16));
    }
};

template <>
struct Block<Q5_1> : Format<32, 24, 0, false, true> {
    template <typename S>
    static void unpack(const uint8_t* b, S out) {
        out.scale(0, f16(b));
        out.min(0, -f16(b + 2));
        out.put(0, nibbles(b + 8) | bits_to_bytes(u32(b + 4), 16));
    }
};

template <>
struct Block<Q8_0> : Format<32, 34, 128> {
    template <typename S>
    static void unpack(const uint8_t* b, S out) {
        out.scale(0, f16(b));
        out.put(0, load<V32>(b + 2) ^ 0x80);
    }
};

template <>
struct Block<Q1_0> : Format<128, 18, 1> {
    template <typename S>
    static void unpack(const uint8_t* b, S out) {
        const float d = f16(b);
        for (int i = 0; i < 4; ++i) {
            out.scale(i, d);
            out.put(i, bits_to_bytes(u32(b + 2 + 4 * i), 2));
        }
    }
};

template <>
struct Block<Q2_0> : Format<64, 18, 1> {
    template <typename S>
    static void unpack(const uint8_t* b, S out) {
        const float d = f16(b);
        for (int i = 0; i < 2; ++i) {
            out.scale(i, d);
            out.put(i, crumbs(u64(b + 2 + 8 * i)));
        }
    }
};

template <>
struct Block<Q2_K> : Format<256, 84, 0, true, true> {
    template <typename S>
    static void unpack(const uint8_t* b, S out) {
        const float d = f16(b + 80), dmin = f16(b + 82);
        for (int i = 0; i < 2; ++i) {
            const uint64_t packed = u64(b + 8 * i);
            out.scale8(i, d * unsigned8(packed & eight(15)));
            out.min8(i, dmin * unsigned8(packed >> 4 & eight(15)));
            const V32 q = load<V32>(b + 16 + 32 * i);
            out.put(4 * i, field<0, 2>(q));
            out.put(4 * i + 1, field<2, 2>(q));
            out.put(4 * i + 2, field<4, 2>(q));
            out.put(4 * i + 3, field<6, 2>(q));
        }
    }
};

template <>
struct Block<Q3_K> : Format<256, 110, 4, true> {
    template <typename S>
    static void unpack(const uint8_t* b, S out) {
        // Scales of six bits: the low four in eight bytes of nibbles, the high two in four bytes.
        const uint64_t low = u64(b + 96);
        const uint32_t high = u32(b + 104);
        const uint64_t first = pair(high & 0x03030303, high >> 2 & 0x03030303);
        const uint64_t second = pair(high >> 4 & 0x03030303, high >> 6 & 0x03030303);
        const float d = f16(b + 108);
        out.scale8(0, d * signed8(less_32((low & eight(15)) | first << 4)));
        out.scale8(1, d * signed8(less_32((low >> 4 & eight(15)) | second << 4)));
        const V32 h = load<V32>(b), q = load<V32>(b + 32), r = load<V32>(b + 64);
        out.put(0, field<0, 2>(q) | field<0, 1, 2>(h));
        out.put(1, field<2, 2>(q) | field<1, 1, 2>(h));
        out.put(2, field<4, 2>(q) | field<2, 1, 2>(h));
        out.put(3, field<6, 2>(q) | field<3, 1, 2>(h));
        out.put(4, field<0, 2>(r) | field<4, 1, 2>(h));
        out.put(5, field<2, 2>(r) | field<5, 1, 2>(h));
        out.put(6, field<4, 2>(r) | field<6, 1, 2>(h));
        out.put(7, field<6, 2>(r) | field<7, 1, 2>(h));
    }
};

// Six-bit scales and minima of Q4_K and Q5_K, eight each in twelve bytes.
template <typename S>
static inline void scales_and_mins(const uint8_t* b, S out) {
    const uint32_t x = u32(b + 4), y = u32(b + 8), z = u32(b + 12);
    const uint64_t scales = pair(x & 0x3f3f3f3f, (z & 0x0f0f0f0f) | (x >> 2 & 0x30303030));
    const uint64_t mins = pair(y & 0x3f3f3f3f, (z >> 4 & 0x0f0f0f0f) | (y >> 2 & 0x30303030));
    out.scale8(0, f16(b) * unsigned8(scales));
    out.min8(0, f16(b + 2) * unsigned8(mins));
}

template <>
struct Block<Q4_K> : Format<256, 144, 0, false, true> {
    template <typename S>
    static void unpack(const uint8_t* b, S out) {
        scales_and_mins(b, out);
        for (int i = 0; i < 4; ++i) {
            const V32 q = load<V32>(b + 16 + 32 * i);
            out.put(2 * i, field<0, 4>(q));
            out.put(2 * i + 1, field<4, 4>(q));
        }
    }
};

template <>
struct Block<Q5_K> : Format<256, 176, 0, false, true> {
    template <typename S>
    static void unpack(const uint8_t* b, S out) {
        scales_and_mins(b, out);
        const V32 high = load<V32>(b + 16);
        two<0>(load<V32>(b + 48), high, out);
        two<1>(load<V32>(b + 80), high, out);
        two<2>(load<V32>(b + 112), high, out);
        two<3>(load<V32>(b + 144), high, out);
    }

private:
    template <int i, typename S>
    static void two(V32 q, V32 high, S out) {
        out.put(2 * i, field<0, 4>(q) | field<2 * i, 1, 4>(high));
        out.put(2 * i + 1, field<4, 4>(q) | field<2 * i + 1, 1, 4>(high));
    }
};

template <>
struct Block<Q6_K> : Format<256, 210, 32, true> {
    template <typename S>
    static void unpack(const uint8_t* b, S out) {
        const float d = f16(b + 208);
        for (int i = 0; i < 2; ++i) {
            out.scale8(i, d * signed8(u64(b + 192 + 8 * i)));
            const V32 l = load<V32>(b + 64 * i), m = load<V32>(b + 64 * i + 32);
            const V32 h = load<V32>(b + 128 + 32 * i);
            out.put(4 * i, field<0, 4>(l) | field<0, 2, 4>(h));
            out.put(4 * i + 1, field<0, 4>(m) | field<2, 2, 4>(h));
            out.put(4 * i + 2, field<4, 4>(l) | field<4, 2, 4>(h));
            out.put(4 * i + 3, field<4, 4>(m) | field<6, 2, 4>(h));
        }
    }
};

// Words of four fields of seven sign bits and, on top, a scale of four bits.
struct SignsAndScales {
    uint32_t signs[8];
    F8 scales;
    explicit SignsAndScales(W8 words) {
        const W8 even = even_signs(spread_sevens(words));
        std::memcpy(signs, &even, sizeof signs);
        using Signed = int32_t __attribute__((vector_size(32)));
        scales = 0.5f + __builtin_convertvector(reinterpret_cast<Signed>(words >> 28), F8);
    }
};

template <>
struct Block<IQ2_XXS> : Format<256, 66, 64> {
    template <typename S>
    static void unpack(const uint8_t* b, S out) {
        const W8 one = load<W8>(b + 2), two = load<W8>(b + 34);  // indices and signs in turns
        const SignsAndScales parts(__builtin_shufflevector(one, two, 1, 3, 5, 7, 9, 11, 13, 15));
        out.scale8(0, f16(b) * parts.scales * 0.25f);
        for (int i = 0; i < 8; ++i) {
            const uint8_t* index = b + 2 + 8 * i;
            const V32 lattice = quad(kGridIQ2XXS[index[0]], kGridIQ2XXS[index[1]],
                                     kGridIQ2XXS[index[2]], kGridIQ2XXS[index[3]]);
            out.put(i, signed_lattice(lattice, parts.signs[i]));
        }
    }
};

// Sixteen four-bit scales, as the two-bit lattices have them.
template <typename S>
static inline void lattice_scales(float d, uint64_t packed, S out) {
    out.scale8(0, d * (0.5f + unsigned8(spread_nibbles(packed & 0xffffffff))) * 0.25f);
    out.scale8(1, d * (0.5f + unsigned8(spread_nibbles(packed >> 32))) * 0.25f);
}

template <>
struct Block<IQ2_XS> : Format<256, 74, 64, true> {
    template <typename S>
    static void unpack(const uint8_t* b, S out) {
        lattice_scales(f16(b), u64(b + 66), out);
        W8 bytes{};
        for (int i = 0; i < 8; ++i) {  // the high seven bits of each code
            uint64_t x = u64(b + 2 + 8 * i) >> 9 & 0x007f007f007f007f;
            x = (x | x >> 8) & 0x0000ffff0000ffff;
            bytes[i] = static_cast<uint32_t>(x | x >> 16);
        }
        const W8 even = even_signs(bytes);
        for (int i = 0; i < 8; ++i) {
            const auto entry = [&](int l) { return kGridIQ2XS[u16(b + 2 + 8 * i + 2 * l) & 511]; };
            out.put(i, signed_lattice(quad(entry(0), entry(1), entry(2), entry(3)), even[i]));
        }
    }
};

template <>
struct Block<IQ2_S> : Format<256, 82, 64, true> {
    template <typename S>
    static void unpack(const uint8_t* b, S out) {
        lattice_scales(f16(b), u64(b + 74), out);
        uint16_t index[32];
        join_bytes(load<V32>(b + 2), crumbs(u64(b + 66)), index);
        for (int i = 0; i < 8; ++i) {
            const auto entry = [&](int l) { return kGridIQ2S[index[4 * i + l]]; };
            out.put(i, signed_lattice(quad(entry(0), entry(1), entry(2), entry(3)), u32(b + 34 + 4 * i)));
        }
    }
};

template <>
struct Block<IQ3_XXS> : Format<256, 98, 64> {
    template <typename S>
    static void unpack(const uint8_t* b, S out) {
        const SignsAndScales parts(load<W8>(b + 66));
        out.scale8(0, f16(b) * parts.scales * 0.5f);
        for (int i = 0; i < 8; ++i) {
            const auto entry = [&](int l) { return kGridIQ3XXS[b[2 + 8 * i + l]]; };
            const W8 lattice = {entry(0), entry(1), entry(2), entry(3), entry(4), entry(5), entry(6), entry(7)};
            out.put(i, signed_lattice(reinterpret_cast<V32>(lattice), parts.signs[i]));
        }
    }
};

template <>
struct Block<IQ3_S> : Format<256, 110, 64> {
    template <typename S>
    static void unpack(const uint8_t* b, S out) {
        out.scale8(0, f16(b) * unsigned8(eight(1) + 2 * spread_nibbles(u32(b + 106))));
        uint16_t index[64];
        join_bytes(load<V32>(b + 2), bits_to_bytes(u32(b + 66), 1), index);
        join_bytes(load<V32>(b + 34), bits_to_bytes(u32(b + 70), 1), index + 32);
        for (int i = 0; i < 8; ++i) {
            const auto entry = [&](int l) { return kGridIQ3S[index[8 * i + l]]; };
            const W8 lattice = {entry(0), entry(1), entry(2), entry(3), entry(4), entry(5), entry(6), entry(7)};
            out.put(i, signed_lattice(reinterpret_cast<V32>(lattice), u32(b + 74 + 4 * i)));
        }
    }
};

// One-bit formats: grid values -1, 0, 1 shifted by an eighth to either side. In eighths they are whole
// numbers; the table holds 16 + 8 * value.
constexpr uint64_t kShifts[2] = {0x0101010101010101, 0xffffffffffffffff};

template <>
struct Block<IQ1_S> : Format<256, 50, 16> {
    template <typename S>
    static void unpack(const uint8_t* b, S out) {
        const H8 high = load<H8>(b + 34);
        out.scale8(0, f16(b) * floats((high >> 12 & 7) * 2 + 1) * 0.125f);
        uint16_t index[32];
        for (int half = 0; half < 2; ++half) {
            const H16 low = __builtin_convertvector(load<V16>(b + 2 + 16 * half), H16);
            const H16 whole = low | threes(high, half == 1) << 8;
            std::memcpy(index + 16 * half, &whole, 32);
        }
        for (int i = 0; i < 8; ++i) {
            const auto entry = [&](int l) { return kGridIQ1S[index[4 * i + l]]; };
            const uint64_t shift = kShifts[b[35 + 2 * i] >> 7];
            out.put(i, quad(entry(0), entry(1), entry(2), entry(3)) + quad(shift, shift, shift, shift));
        }
    }
};

template <>
struct Block<IQ1_M> : Format<256, 56, 16, true> {
    template <typename S>
    static void unpack(const uint8_t* b, S out) {
        // Four words of four scales of three bits; their highest nibbles are the block's own scale.
        const uint64_t packed = u64(b + 48);
        const float d = half_to_float(static_cast<uint16_t>((packed >> 12 & 0x000f) | (packed >> 24 & 0x00f0) |
                                                            (packed >> 36 & 0x0f00) | (packed >> 48 & 0xf000)));
        H8 words{};
        std::memcpy(&words, &packed, 8);
        H8 scales[2];
        const H16 all = threes(words, false) * 2 + 1;
        std::memcpy(scales, &all, 32);
        out.scale8(0, d * floats(scales[0]) * 0.125f);
        out.scale8(1, d * floats(scales[1]) * 0.125f);
        uint16_t index[32];  // eleven bits, and above them the shift's sign
        const V16 high = load<V16>(b + 32);
        const V32 nibbles = __builtin_shufflevector(high & 15, high >> 4, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22,
                                                    7, 23, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
        join_bytes(load<V32>(b), nibbles, index);
        for (int i = 0; i < 8; ++i) {
            const auto entry = [&](int l) { return kGridIQ1S[index[4 * i + l] & 2047]; };
            const auto shift = [&](int l) { return kShifts[index[4 * i + l] >> 11]; };
            out.put(i, quad(entry(0), entry(1), entry(2), entry(3)) + quad(shift(0), shift(1), shift(2), shift(3)));
        }
    }
};

template <>
struct Block<IQ4_NL> : Format<32, 18, 128> {
    template <typename S>
    static void unpack(const uint8_t* b, S out) {
        out.scale(0, f16(b));
        out.put(0, lookup(kCodesIQ4NL, nibbles(b + 2)));
    }
};

template <>
struct Block<IQ4_XS> : Format<256, 136, 128> {
    template <typename S>
    static void unpack(const uint8_t* b, S out) {
        const uint64_t scales = spread_nibbles(u32(b + 4)) | spread_crumbs(u16(b + 2)) << 4;
        out.scale8(0, f16(b) * signed8(less_32(scales)));
        for (int i = 0; i < 8; ++i) out.put(i, lookup(kCodesIQ4NL, nibbles(b + 8 + 16 * i)));
    }
};

template <>
struct Block<MXFP4> : Format<32, 17, 16> {
    template <typename S>
    static void unpack(const uint8_t* b, S out) {
        // Half of 2^(e - 127), because the table holds doubled values.
        const uint32_t bits = b[0] < 2 ? 0x00200000u << b[0] : static_cast<uint32_t>(b[0] - 1) << 23;
        float scale;
        std::memcpy(&scale, &bits, 4);
        out.scale(0, scale);
        out.put(0, lookup(kCodesFP4, nibbles(b + 1)));
    }
};

// Unsigned floats of 8 bits, 4 of exponent (bias 7) and 3 of mantissa, halved for the doubled table.
struct HalfUE4M3 {
    float value[256] = {};
    constexpr HalfUE4M3() {
        for (int x = 1; x < 256; ++x) {
            const int exponent = x >> 3 & 15, mantissa = x & 7;
            float v = static_cast<float>(exponent == 0 ? mantissa : mantissa + 8) / 1024.0f;
            for (int i = 1; i < exponent; ++i) v *= 2.0f;
            value[x] = x == 0x7f ? 0.0f : v;
        }
    }
};
constexpr HalfUE4M3 kHalfUE4M3;

template <>
struct Block<NVFP4> : Format<64, 36, 16, true> {
    template <typename S>
    static void unpack(const uint8_t* b, S out) {
        for (int i = 0; i < 4; ++i) out.scale(i, kHalfUE4M3.value[b[i]]);
        for (int i = 0; i < 2; ++i) {  // sixteen weights: eight low nibbles, then the high ones
            const uint64_t one = u64(b + 4 + 16 * i), two = u64(b + 12 + 16 * i);
            const V32 index = quad(one & eight(15), one >> 4 & eight(15), two & eight(15), two >> 4 & eight(15));
            out.put(i, lookup(kCodesFP4, index));
        }
    }
};

// Ternary formats: -1, 0, 1.
template <>
struct Block<TQ2_0> : Format<256, 66, 1> {
    template <typename S>
    static void unpack(const uint8_t* b, S out) {
        const float d = f16(b + 64);
        for (int i = 0; i < 8; ++i) out.scale(i, d);
        for (int i = 0; i < 2; ++i) {
            const V32 q = load<V32>(b + 32 * i);
            out.put(4 * i, field<0, 2>(q));
            out.put(4 * i + 1, field<2, 2>(q));
            out.put(4 * i + 2, field<4, 2>(q));
            out.put(4 * i + 3, field<6, 2>(q));
        }
    }
};

template <>
struct Block<TQ1_0> : Format<256, 54, 1> {
    template <typename S>
    static void unpack(const uint8_t* b, S out) {
        const float d = f16(b + 52);
        for (int i = 0; i < 8; ++i) out.scale(i, d);
        // Five digits to base 3 in a byte as a fraction of 256; tripling moves the next one up. The
        // last bytes hold one digit less.
        V32 wide = load<V32>(b);
        V16 narrow = load<V16>(b + 32);
        uint8_t digits[96];
        for (int n = 0; n < 5; ++n) {
            out.put(n, first_digit(wide));
            const V16 some = first_digit(narrow);
            std::memcpy(digits + 16 * n, &some, 16);
            wide = wide + wide + wide;
            narrow = narrow + narrow + narrow;
        }
        const uint32_t bytes = u32(b + 48);
        using Words = uint32_t __attribute__((vector_size(16)));
        const V16 powers = {1, 1, 1, 1, 3, 3, 3, 3, 9, 9, 9, 9, 27, 27, 27, 27};
        const V16 last = first_digit(reinterpret_cast<V16>(Words{bytes, bytes, bytes, bytes}) * powers);
        std::memcpy(digits + 80, &last, 16);
        for (int i = 0; i < 3; ++i) out.put(5 + i, load<V32>(digits + 32 * i));
    }

private:
    // fraction * 3 >> 8, without leaving the byte.
    template <typename V>
    static V first_digit(V fraction) {
        return reinterpret_cast<V>((fraction > 85) & 1) + reinterpret_cast<V>((fraction > 170) & 1);
    }
};
