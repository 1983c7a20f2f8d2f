// Block formats: from a block's bytes to int16 values with a scale (and a minimum) per 16 weights.
//
//   weight = scale * q - min        with the same float32 operations as ggml's dequantisation,
//
// so that one unpacker serves the exact float path and the int8 path. Included by core.h inside the
// namespace of an instruction-set variant: nothing here may be shared between variants.
// Source: ggml-quants.c (dequantize_row_*) of llama.cpp b11549; Q1_0 and Q2_0 from ggml pull 24448.

// 32 consecutive weights, unpacked.
struct Chunk {
    alignas(32) int16_t q[32];
    float scale[2];
    float min[2];
};

#include "unpack_parts.h"

static inline float f16(const uint8_t* p) { return half_to_float(u16(p)); }

static inline void uniform(Chunk& c, float scale, float min = 0.0f) {
    c.scale[0] = c.scale[1] = scale;
    c.min[0] = c.min[1] = min;
}

// `fine`: the two halves of a chunk have scales of their own. `has_min`: min may be non-zero.
template <int kElements, int kBytes, bool kFine, bool kHasMin>
struct Format {
    static constexpr int elements = kElements, bytes = kBytes;
    static constexpr bool fine = kFine, has_min = kHasMin;
};

template <int type>
struct Block;

template <>
struct Block<Q4_0> : Format<32, 18, false, false> {
    static void unpack(const uint8_t* b, Chunk* c) {
        uniform(*c, f16(b));
        nibbles(b + 2, c->q, 8);
    }
};

template <>
struct Block<Q4_1> : Format<32, 20, false, true> {
    static void unpack(const uint8_t* b, Chunk* c) {
        uniform(*c, f16(b), -f16(b + 2));
        nibbles(b + 4, c->q, 0);
    }
};

template <>
struct Block<Q5_0> : Format<32, 22, false, false> {
    static void unpack(const uint8_t* b, Chunk* c) {
        uniform(*c, f16(b));
        nibbles(b + 6, c->q, 16);
        fifth_bits(u32(b + 2), c->q);
    }
};

template <>
struct Block<Q5_1> : Format<32, 24, false, true> {
    static void unpack(const uint8_t* b, Chunk* c) {
        uniform(*c, f16(b), -f16(b + 2));
        nibbles(b + 8, c->q, 0);
        fifth_bits(u32(b + 4), c->q);
    }
};

template <>
struct Block<Q8_0> : Format<32, 34, false, false> {
    static void unpack(const uint8_t* b, Chunk* c) {
        uniform(*c, f16(b));
        for (int j = 0; j < 32; ++j) c->q[j] = static_cast<int8_t>(b[2 + j]);
    }
};

template <>
struct Block<Q1_0> : Format<128, 18, false, false> {
    static void unpack(const uint8_t* b, Chunk* c) {
        for (int i = 0; i < 4; ++i) {
            uniform(c[i], f16(b));
            const uint32_t bits = u32(b + 2 + 4 * i);
            for (int j = 0; j < 32; ++j) c[i].q[j] = bits >> j & 1 ? 1 : -1;
        }
    }
};

template <>
struct Block<Q2_0> : Format<64, 18, false, false> {
    static void unpack(const uint8_t* b, Chunk* c) {
        for (int i = 0; i < 2; ++i) {
            uniform(c[i], f16(b));
            crumbs(b + 2 + 8 * i, c[i].q);
        }
    }
};

template <>
struct Block<Q2_K> : Format<256, 84, true, true> {
    static void unpack(const uint8_t* b, Chunk* c) {
        const uint8_t *scales = b, *qs = b + 16;
        const float d = f16(b + 80), dmin = f16(b + 82);
        for (int i = 0; i < 8; ++i) {
            const uint8_t* q = qs + 32 * (i / 4);
            Fields(q, 2 * (i % 4), 3).store(0, c[i].q);
            for (int h = 0; h < 2; ++h) {
                const uint8_t sc = scales[2 * i + h];
                c[i].scale[h] = d * static_cast<float>(sc & 15);
                c[i].min[h] = dmin * static_cast<float>(sc >> 4);
            }
        }
    }
};

template <>
struct Block<Q3_K> : Format<256, 110, true, false> {
    static void unpack(const uint8_t* b, Chunk* c) {
        const uint8_t *hmask = b, *qs = b + 32, *packed = b + 96;
        const float d = f16(b + 108);
        for (int i = 0; i < 8; ++i) {
            const uint8_t* q = qs + 32 * (i / 4);
            Fields(q, 2 * (i % 4), 3).below(Fields(hmask, i, 1), 2).store(4, c[i].q);
            for (int h = 0; h < 2; ++h) {
                const int n = 2 * i + h;  // 4 low bits in bytes 0..7, 2 high bits in bytes 8..11
                const int low = n < 8 ? packed[n] & 15 : packed[n - 8] >> 4;
                const int high = packed[8 + n % 4] >> 2 * (n / 4) & 3;
                c[i].scale[h] = d * static_cast<float>((low | high << 4) - 32);
                c[i].min[h] = 0.0f;
            }
        }
    }
};

// Six-bit scales and minima of Q4_K and Q5_K, eight each in twelve bytes.
static inline void scale_min(int i, const uint8_t* packed, int* scale, int* min) {
    if (i < 4) {
        *scale = packed[i] & 63;
        *min = packed[i + 4] & 63;
    } else {
        *scale = (packed[i + 4] & 15) | (packed[i - 4] >> 6) << 4;
        *min = (packed[i + 4] >> 4) | (packed[i] >> 6) << 4;
    }
}

template <>
struct Block<Q4_K> : Format<256, 144, false, true> {
    static void unpack(const uint8_t* b, Chunk* c) {
        const float d = f16(b), dmin = f16(b + 2);
        for (int i = 0; i < 8; ++i) {
            int scale, min;
            scale_min(i, b + 4, &scale, &min);
            uniform(c[i], d * static_cast<float>(scale), dmin * static_cast<float>(min));
            const uint8_t* q = b + 16 + 32 * (i / 2);
            Fields(q, 4 * (i % 2), 15).store(0, c[i].q);
        }
    }
};

template <>
struct Block<Q5_K> : Format<256, 176, false, true> {
    static void unpack(const uint8_t* b, Chunk* c) {
        const float d = f16(b), dmin = f16(b + 2);
        const uint8_t* high = b + 16;
        for (int i = 0; i < 8; ++i) {
            int scale, min;
            scale_min(i, b + 4, &scale, &min);
            uniform(c[i], d * static_cast<float>(scale), dmin * static_cast<float>(min));
            const uint8_t* q = b + 48 + 32 * (i / 2);
            Fields(q, 4 * (i % 2), 15).below(Fields(high, i, 1), 4).store(0, c[i].q);
        }
    }
};

template <>
struct Block<Q6_K> : Format<256, 210, true, false> {
    static void unpack(const uint8_t* b, Chunk* c) {
        const uint8_t *low = b, *high = b + 128;
        const float d = f16(b + 208);
        for (int i = 0; i < 8; ++i) {
            const int part = i % 4;  // quarter of a half of 128
            const uint8_t* l = low + 64 * (i / 4) + 32 * (part % 2);
            const uint8_t* h = high + 32 * (i / 4);
            Fields(l, 4 * (part / 2), 15).below(Fields(h, 2 * part, 3), 4).store(32, c[i].q);
            for (int s = 0; s < 2; ++s) {
                c[i].scale[s] = d * static_cast<float>(static_cast<int8_t>(b[192 + 2 * i + s]));
                c[i].min[s] = 0.0f;
            }
        }
    }
};

template <>
struct Block<IQ2_XXS> : Format<256, 66, false, false> {
    static void unpack(const uint8_t* b, Chunk* c) {
        const float d = f16(b);
        for (int i = 0; i < 8; ++i) {
            const uint8_t* index = b + 2 + 8 * i;
            const uint32_t aux = u32(index + 4);
            uniform(c[i], d * (0.5f + static_cast<float>(aux >> 28)) * 0.25f);
            for (int l = 0; l < 4; ++l) {
                lattice8(kGridIQ2XXS[index[l]], kSigns[aux >> 7 * l & 127], c[i].q + 8 * l);
            }
        }
    }
};

// Two four-bit scales to a chunk, as the two-bit lattices have them.
static inline void half_scales(Chunk& c, float d, uint8_t packed) {
    c.scale[0] = d * (0.5f + static_cast<float>(packed & 15)) * 0.25f;
    c.scale[1] = d * (0.5f + static_cast<float>(packed >> 4)) * 0.25f;
    c.min[0] = c.min[1] = 0.0f;
}

template <>
struct Block<IQ2_XS> : Format<256, 74, true, false> {
    static void unpack(const uint8_t* b, Chunk* c) {
        const float d = f16(b);
        for (int i = 0; i < 8; ++i) {
            half_scales(c[i], d, b[66 + i]);
            for (int l = 0; l < 4; ++l) {
                const uint16_t code = u16(b + 2 + 8 * i + 2 * l);
                lattice8(kGridIQ2XS[code & 511], kSigns[code >> 9], c[i].q + 8 * l);
            }
        }
    }
};

template <>
struct Block<IQ2_S> : Format<256, 82, true, false> {
    static void unpack(const uint8_t* b, Chunk* c) {
        const float d = f16(b);
        const uint8_t *index = b + 2, *signs = b + 34, *high = b + 66;
        for (int i = 0; i < 8; ++i) {
            half_scales(c[i], d, b[74 + i]);
            for (int l = 0; l < 4; ++l) {
                const int code = index[4 * i + l] | (high[i] << (8 - 2 * l) & 0x300);
                lattice8(kGridIQ2S[code], signs[4 * i + l], c[i].q + 8 * l);
            }
        }
    }
};

template <>
struct Block<IQ3_XXS> : Format<256, 98, false, false> {
    static void unpack(const uint8_t* b, Chunk* c) {
        const float d = f16(b);
        for (int i = 0; i < 8; ++i) {
            const uint8_t* index = b + 2 + 8 * i;
            const uint32_t aux = u32(b + 66 + 4 * i);
            uniform(c[i], d * (0.5f + static_cast<float>(aux >> 28)) * 0.5f);
            for (int l = 0; l < 4; ++l) {
                const uint64_t grid = pair(kGridIQ3XXS[index[2 * l]], kGridIQ3XXS[index[2 * l + 1]]);
                lattice8(grid, kSigns[aux >> 7 * l & 127], c[i].q + 8 * l);
            }
        }
    }
};

template <>
struct Block<IQ3_S> : Format<256, 110, false, false> {
    static void unpack(const uint8_t* b, Chunk* c) {
        const float d = f16(b);
        const uint8_t *high = b + 66, *signs = b + 74, *scales = b + 106;
        for (int i = 0; i < 8; ++i) {
            const uint8_t* index = b + 2 + 8 * i;
            const int scale = scales[i / 2] >> 4 * (i % 2) & 15;
            uniform(c[i], d * static_cast<float>(1 + 2 * scale));
            for (int l = 0; l < 4; ++l) {
                const int one = index[2 * l] | (high[i] << (8 - 2 * l) & 256);
                const int two = index[2 * l + 1] | (high[i] << (7 - 2 * l) & 256);
                lattice8(pair(kGridIQ3S[one], kGridIQ3S[two]), signs[4 * i + l], c[i].q + 8 * l);
            }
        }
    }
};

template <>
struct Block<IQ1_S> : Format<256, 50, false, false> {
    static void unpack(const uint8_t* b, Chunk* c) {
        const float d = f16(b);
        for (int i = 0; i < 8; ++i) {
            const uint16_t high = u16(b + 34 + 2 * i);
            uniform(c[i], d * static_cast<float>(2 * (high >> 12 & 7) + 1) * 0.125f);
            for (int l = 0; l < 4; ++l) {
                const int code = b[2 + 4 * i + l] | (high >> 3 * l & 7) << 8;
                eighths(kGridIQ1S[code], high & 0x8000 ? -1 : 1, c[i].q + 8 * l);
            }
        }
    }
};

template <>
struct Block<IQ1_M> : Format<256, 56, true, false> {
    static void unpack(const uint8_t* b, Chunk* c) {
        const uint8_t *index = b, *high = b + 32;
        uint16_t sc[4];
        for (int i = 0; i < 4; ++i) sc[i] = u16(b + 48 + 2 * i);
        const float d = half_to_float(static_cast<uint16_t>(
            sc[0] >> 12 | (sc[1] >> 8 & 0x00f0) | (sc[2] >> 4 & 0x0f00) | (sc[3] & 0xf000)));
        for (int i = 0; i < 8; ++i) {
            for (int h = 0; h < 2; ++h) {
                const int scale = sc[i / 2] >> (6 * (i % 2) + 3 * h) & 7;
                c[i].scale[h] = d * static_cast<float>(2 * scale + 1) * 0.125f;
                c[i].min[h] = 0.0f;
            }
            for (int l = 0; l < 4; ++l) {
                const int bits = high[2 * i + l / 2] >> 4 * (l % 2);
                const int code = index[4 * i + l] | (bits & 7) << 8;
                eighths(kGridIQ1S[code], bits & 8 ? -1 : 1, c[i].q + 8 * l);
            }
        }
    }
};

template <>
struct Block<IQ4_NL> : Format<32, 18, false, false> {
    static void unpack(const uint8_t* b, Chunk* c) {
        uniform(*c, f16(b));
        looked_up(b + 2, kValuesIQ4NL, c->q);
    }
};

template <>
struct Block<IQ4_XS> : Format<256, 136, false, false> {
    static void unpack(const uint8_t* b, Chunk* c) {
        const float d = f16(b);
        const uint16_t high = u16(b + 2);
        for (int i = 0; i < 8; ++i) {
            const int scale = (b[4 + i / 2] >> 4 * (i % 2) & 15) | (high >> 2 * i & 3) << 4;
            uniform(c[i], d * static_cast<float>(scale - 32));
            looked_up(b + 8 + 16 * i, kValuesIQ4NL, c[i].q);
        }
    }
};

template <>
struct Block<MXFP4> : Format<32, 17, false, false> {
    static void unpack(const uint8_t* b, Chunk* c) {
        // Half of 2^(e - 127), because the table holds doubled values.
        const uint32_t bits = b[0] < 2 ? 0x00200000u << b[0] : static_cast<uint32_t>(b[0] - 1) << 23;
        float scale;
        std::memcpy(&scale, &bits, 4);
        uniform(*c, scale);
        looked_up(b + 1, kValuesFP4, c->q);
    }
};

// An unsigned 8-bit float, 4 exponent bits (bias 7) and 3 of mantissa, halved for the doubled table.
static inline float half_ue4m3(uint8_t x) {
    if (x == 0 || x == 0x7f) return 0.0f;
    const int exponent = x >> 3 & 15, mantissa = x & 7;
    const float value = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                      : std::ldexp(1.0f + static_cast<float>(mantissa) / 8.0f, exponent - 7);
    return value * 0.5f;
}

template <>
struct Block<NVFP4> : Format<64, 36, true, false> {
    static void unpack(const uint8_t* b, Chunk* c) {
        for (int part = 0; part < 4; ++part) {  // 16 weights: low nibbles, then high nibbles
            Chunk& chunk = c[part / 2];
            const uint8_t* q = b + 4 + 8 * part;
            int16_t* out = chunk.q + 16 * (part % 2);
            chunk.scale[part % 2] = half_ue4m3(b[part]);
            chunk.min[part % 2] = 0.0f;
            for (int j = 0; j < 8; ++j) {
                out[j] = kValuesFP4[q[j] & 15];
                out[j + 8] = kValuesFP4[q[j] >> 4];
            }
        }
    }
};

// Ternary formats: -1, 0, 1.
template <>
struct Block<TQ2_0> : Format<256, 66, false, false> {
    static void unpack(const uint8_t* b, Chunk* c) {
        for (int i = 0; i < 8; ++i) {
            uniform(c[i], f16(b + 64));
            const uint8_t* q = b + 32 * (i / 4);
            Fields(q, 2 * (i % 4), 3).store(1, c[i].q);
        }
    }
};

template <>
struct Block<TQ1_0> : Format<256, 54, false, false> {
    // Digit n of a byte that holds five digits to base 3 as a fraction of 256.
    static int16_t trit(uint8_t byte, int n) {
        static constexpr uint8_t kPower[5] = {1, 3, 9, 27, 81};
        const uint8_t shifted = static_cast<uint8_t>(byte * kPower[n]);
        return static_cast<int16_t>((shifted * 3 >> 8) - 1);
    }

    static void unpack(const uint8_t* b, Chunk* c) {
        for (int i = 0; i < 8; ++i) uniform(c[i], f16(b + 52));
        const auto put = [c](int at, int16_t value) { c[at / 32].q[at % 32] = value; };
        int at = 0;
        for (int n = 0; n < 5; ++n)
            for (int j = 0; j < 32; ++j) put(at++, trit(b[j], n));
        for (int n = 0; n < 5; ++n)
            for (int j = 32; j < 48; ++j) put(at++, trit(b[j], n));
        for (int n = 0; n < 4; ++n)
            for (int j = 48; j < 52; ++j) put(at++, trit(b[j], n));
    }
};
