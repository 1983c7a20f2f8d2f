// Products of rounded activations with quantised weights, a byte each. Included by core.h.
//
// Order of sums, the same for every instruction set, so that all variants give the same bits: the
// products of a group of weights that share a scale (32, or 16 of a fine format) add up exactly as
// whole numbers; then, group by group in the order of the columns,
//
//   acc = fma(float(sum), scale * d, acc)   and, with minima,   acc = fma(-min, s, acc)
//
// The variant has defined, for kLanes rows side by side:
//   Ints    whole numbers: all(x), add_products(Codes, x) with four bytes of x, plus, plus_sixteen_times;
//           first_halves, second_halves: see multiply_one
//   Floats  load, store, all, of(Ints), times, add_product, subtract_product
//   Vector  words of four bytes: load_vector(p), store_vector(p, v), four_bytes(p)
//   Codes   the weights of four columns: Codes<true> of a format that is taken as signed bytes
//   Bytes   32 activations, in each 32 bytes of a vector; word<k>() repeats four of them
//   mix_words(p, w), first_lanes(a, b), second_lanes(a, b)   see Panel
//   kSignedCodes    whether codes around 128 are taken as signed bytes; their offset then counts as 0
//   kTokensAtOnce   as many tokens as registers hold sums of

constexpr int kByteTokens = 256;  // tokens computed against a panel before it is unpacked again

// kLanes rows of one step, unpacked row by row: a chunk of 32 codes (or of eight scales) of all rows
// lies together. Exchanging words of four bytes between four vectors, within lanes of 128 bits,
// mixes them so that a lane holds one word of four rows: of rows 0-3, word k and word 4 + k in
// neighbouring lanes, and so on; moving whole lanes then leaves [word][row]. One token is done with
// the first half of that; for several the whole is done in place.
struct Panel {
    static constexpr int kChunk = kLanes * 32;
    alignas(64) uint8_t codes[kStep * kLanes];
    alignas(64) float scales[kStep / 16 * kLanes];
    alignas(64) float mins[kStep / 16 * kLanes];

    Sink<kChunk> row(int r) {
        const int at = (r % 4 + r / (kLanes / 2) * 4) * kLanes * 4 + r / 4 % (kLanes / 8) * 32;
        return {codes + at, scales + at / 4, mins + at / 4};
    }

    void transpose_codes(int chunks) {
        for (int i = 0; i < chunks; ++i) transpose_chunk(codes + i * kChunk);
    }

    void transpose_scales(int groups, bool has_min) {
        for (int i = 0; i < (groups + 7) / 8; ++i) {
            transpose_chunk(reinterpret_cast<uint8_t*>(scales) + i * kChunk);
            if (has_min) transpose_chunk(reinterpret_cast<uint8_t*>(mins) + i * kChunk);
        }
    }

    // Codes become signed values.
    void subtract(uint8_t offset, int chunks) {
        for (int i = 0; offset != 0 && i < chunks * kChunk; ++i) codes[i] = static_cast<uint8_t>(codes[i] - offset);
    }

private:
    static void transpose_chunk(uint8_t* p) {
        Vector a[4], b[4];
        mix_words(p, a);
        mix_words(p + kChunk / 2, b);
        for (int k = 0; k < 4; ++k) {
            store_vector(p + kLanes * 4 * k, first_lanes(a[k], b[k]));
            store_vector(p + kLanes * 4 * (4 + k), second_lanes(a[k], b[k]));
        }
    }
};

// Whether codes of a format with this offset are taken as signed bytes.
constexpr bool taken_signed(int offset) { return kSignedCodes && offset == 128; }

template <typename B>
constexpr QuantForm kForm = {taken_signed(B::offset) ? 0 : B::offset, B::fine ? 2 : 1, B::has_min};

static Layout layout(int type) {
    switch (type) {
        case F32: return {1, 4, {}};
        case F16: case BF16: return {1, 2, {}};
#define X(type) \
    case type: return {Block<type>::elements, Block<type>::bytes, kForm<Block<type>>};
        LAMINA_QUANTISED(X)
#undef X
    }
    return {0, 0, {}};
}

// acc += panel . x[token] over `chunks` chunks of 32 columns from `chunk` on; the panel's codes are not
// transposed yet. Sums of products of mixed words stand in lanes, first and second 16 columns of four
// rows beside each other, and only the sums are moved.
template <bool kFine, bool kHasMin, bool kCentred, bool kWide>
static void multiply_one(const Panel& panel, const QuantBlock& x, int64_t token, int64_t chunk, int chunks,
                         float* acc) {
    constexpr int kParts = kFine ? 2 : 1;
    Floats sum = Floats::load(acc);
    for (int i = 0; i < chunks; ++i) {
        const int64_t at = (chunk + i) * x.tokens + token;
        const int8_t* values = x.codes + at * (kWide ? 64 : 32);
        Ints half[2];  // of the rows
        const Bytes high(values), low(kWide ? values + 32 : values);
        for (int h = 0; h < 2; ++h) {
            Vector w[4];
            mix_words(panel.codes + i * Panel::kChunk + h * Panel::kChunk / 2, w);
            const Codes<kCentred> a(w[0]), b(w[1]), c(w[2]), d(w[3]);
            Ints one = Ints::all(0), two = Ints::all(0);
            one.add_products(a, low.template word<0>());
            one.add_products(b, low.template word<1>());
            one.add_products(c, low.template word<2>());
            one.add_products(d, low.template word<3>());
            if (kWide) {
                two.add_products(a, high.template word<0>());
                two.add_products(b, high.template word<1>());
                two.add_products(c, high.template word<2>());
                two.add_products(d, high.template word<3>());
                one = one.plus_sixteen_times(two);
            }
            half[h] = one;
        }
        const Floats d = Floats::all(x.d[at]);
        const Ints first = Ints::first_halves(half[0], half[1]), second = Ints::second_halves(half[0], half[1]);
        for (int part = 0; part < kParts; ++part) {
            const int group = i * kParts + part;
            const int64_t group_at = (chunk * kParts + group) * x.tokens + token;
            const Ints total = !kFine ? first.plus(second) : part == 0 ? first : second;
            const Floats scale = Floats::load(panel.scales + group * kLanes);
            sum.add_product(Floats::of(total.plus(Ints::all(x.start[group_at]))), scale.times(d));
            if (kHasMin) {
                sum.subtract_product(Floats::load(panel.mins + group * kLanes), Floats::all(x.s[group_at]));
            }
        }
    }
    sum.store(acc);
}

// acc[t] += panel . x[token + t] for kTokens tokens, the panel's codes transposed.
template <bool kFine, bool kHasMin, bool kCentred, bool kWide, int kTokens>
static void multiply_panel(const Panel& panel, const QuantBlock& x, int64_t token, int64_t chunk, int chunks,
                           float (*acc)[kLanes]) {
    constexpr int kParts = kFine ? 2 : 1, kQuads = 8 / kParts, kWidth = kWide ? 64 : 32;
    Floats sum[kTokens];
    for (int t = 0; t < kTokens; ++t) sum[t] = Floats::load(acc[t]);
    for (int i = 0; i < chunks; ++i) {
        const int64_t at = (chunk + i) * x.tokens + token;
        for (int part = 0; part < kParts; ++part) {
            const int group = i * kParts + part;
            const int64_t group_at = (chunk * kParts + group) * x.tokens + token;
            const int8_t* values = x.codes + at * kWidth + part * 16;
            const uint8_t* codes = panel.codes + group * kQuads * kLanes * 4;
            Ints low[kTokens], high[kTokens];
            for (int t = 0; t < kTokens; ++t) {
                low[t] = Ints::all(x.start[group_at + t]);
                if (kWide) high[t] = Ints::all(0);
            }
            for (int quad = 0; quad < kQuads; ++quad) {
                const Codes<kCentred> w(load_vector(codes + quad * kLanes * 4));
                for (int t = 0; t < kTokens; ++t) {
                    const int8_t* v = values + t * kWidth + quad * 4;
                    if (kWide) {
                        high[t].add_products(w, four_bytes(v));
                        low[t].add_products(w, four_bytes(v + 32));
                    } else {
                        low[t].add_products(w, four_bytes(v));
                    }
                }
            }
            const Floats scale = Floats::load(panel.scales + group * kLanes);
            for (int t = 0; t < kTokens; ++t) {
                if (kWide) low[t] = low[t].plus_sixteen_times(high[t]);
                sum[t].add_product(Floats::of(low[t]), scale.times(Floats::all(x.d[at + t])));
                if (kHasMin) {
                    const Floats min = Floats::load(panel.mins + group * kLanes);
                    sum[t].subtract_product(min, Floats::all(x.s[group_at + t]));
                }
            }
        }
    }
    for (int t = 0; t < kTokens; ++t) sum[t].store(acc[t]);
}

template <bool kFine, bool kHasMin, int kOffset, bool kWide>
static void multiply(Panel& panel, const QuantBlock& x, int64_t token, int64_t tokens, int64_t chunk, int chunks,
                     float (*acc)[kLanes]) {
    constexpr bool kCentred = taken_signed(kOffset);
    if (tokens == 1) {
        return multiply_one<kFine, kHasMin, kCentred, kWide>(panel, x, token, chunk, chunks, acc[0]);
    }
    panel.transpose_codes(chunks);
    int64_t t = 0;
    const auto by = [&](auto count) {
        constexpr int n = decltype(count)::value;
        for (; t + n <= tokens; t += n) {
            multiply_panel<kFine, kHasMin, kCentred, kWide, n>(panel, x, token + t, chunk, chunks, acc + t);
        }
    };
    by(std::integral_constant<int, kTokensAtOnce>());
    by(std::integral_constant<int, kTokensAtOnce / 2>());
    if (kTokensAtOnce > 4) by(std::integral_constant<int, 2>());
    by(std::integral_constant<int, 1>());
}

// Up to kLanes rows side by side, from row `first` of `rows` on; a short set has its last row several times.
template <int type>
class RowSet {
public:
    // `cold`: nobody has fetched its first steps.
    RowSet(const Rows& rows, int64_t first, bool cold)
        : rows_(rows), first_(rows.first + first), count_(smaller(kLanes, rows.count - first)) {
        for (int r = 0; r < kLanes; ++r) {
            const int64_t row = smaller(first + r, rows.count - 1);
            data_[r] = rows.data + static_cast<size_t>(rows.first + row) * rows.row_bytes;
            if (cold) fetch_ahead<type, kStepsAhead>(data_[r]);
        }
    }

    // A step of all rows, its codes not transposed yet. The next set begins `rows` rows on.
    void unpack(int64_t column, int rows, Panel& panel) const {
        const int count = static_cast<int>(smaller(kStep, rows_.cols - column));
        const size_t ahead = step_ahead<type>(column, rows_.row_bytes, rows);
        for (int r = 0; r < kLanes; ++r) {
            fetch_ahead<type, 1>(data_[r] + ahead);
            unpack_step<type>(data_[r], column, count, panel.row(r));
        }
        panel.transpose_scales(count / 32 * (Block<type>::fine ? 2 : 1), Block<type>::has_min);
    }

    // One token's sums.
    void copy_out(const float* sums, float* y) const {
        if (count_ > 0) std::memcpy(y + first_, sums, static_cast<size_t>(count_) * sizeof(float));
    }

private:
    const Rows& rows_;
    const int64_t first_, count_;
    const uint8_t* data_[kLanes];
};

#ifdef LAMINA_TILES
#include "tiles_amx.h"
#endif

template <int type>
static void dot_bytes_of(const Rows& rows, const QuantBlock& x, int64_t token, int64_t tokens, float* const* y) {
    using B = Block<type>;
#ifdef LAMINA_TILES
    if constexpr (!B::fine) {
        if (tokens >= tiles_least(x.wide)) return dot_tiles_of<type>(rows, x, token, tokens, y);
    }
#endif
    const auto by = x.wide ? multiply<B::fine, B::has_min, B::offset, true>
                           : multiply<B::fine, B::has_min, B::offset, false>;
    Panel panel;
    alignas(64) float acc[kByteTokens][kLanes];
    for (int64_t first = 0; first < rows.count; first += kLanes) {
        const RowSet<type> set(rows, first, first == 0);
        std::memset(acc, 0, static_cast<size_t>(tokens) * sizeof acc[0]);
        for (int64_t column = 0; column < rows.cols; column += kStep) {
            const int chunks = static_cast<int>(smaller(kStep, rows.cols - column) / 32);
            set.unpack(column, kLanes, panel);
            by(panel, x, token, tokens, column / 32, chunks, acc);
        }
        for (int64_t t = 0; t < tokens; ++t) set.copy_out(acc[t], y[t]);
    }
}

static void dot_bytes(const Rows& rows, const QuantBlock& x, int64_t first, int64_t tokens, float* const* y) {
    for (int64_t t = first; t < first + tokens; t += kByteTokens) {
        const int64_t count = first + tokens - t < kByteTokens ? first + tokens - t : kByteTokens;
        switch (rows.type) {
#define X(type) \
    case type: dot_bytes_of<type>(rows, x, t, count, y + t); break;
            LAMINA_QUANTISED(X)
#undef X
        }
    }
}

// Blocks of smaller values become zeros: levels / most would overflow.
constexpr float kQuantisedLeast = 1e-35f;

// Whole numbers of at most `levels` for 32 values, and d, so that x ~ d * whole.
static inline float round_chunk(const float* v, float levels, int32_t* whole) {
    uint32_t most_bits = 0;  // of numbers without their sign the order is that of their bits
    for (int j = 0; j < 32; ++j) {
        const uint32_t bits = load<uint32_t>(v + j) & 0x7fffffff;
        most_bits = bits > most_bits ? bits : most_bits;
    }
    const float most = load<float>(&most_bits);
    const bool finite = most_bits < 0x7f800000;
    if (!finite || most < kQuantisedLeast) {
        for (int j = 0; j < 32; ++j) whole[j] = 0;
        return finite ? 0.0f : std::numeric_limits<float>::quiet_NaN();
    }
    const float inverse = levels / most;
    for (int j = 0; j < 32; ++j) {
        // Adding and taking away 1.5 * 2^23 rounds to the nearest whole number.
        whole[j] = static_cast<int32_t>((v[j] * inverse + 12582912.0f) - 12582912.0f);
    }
    return most / levels;
}

template <bool kWide, int kParts>
static void quantize_as(const float* x, int64_t stride, int64_t cols, const QuantForm& form, int64_t first,
                        int64_t tokens, const QuantBlock& out) {
    constexpr int kSize = 32 / kParts;
    for (int64_t i = 0; i < cols / 32; ++i) {
        for (int64_t t = first; t < first + tokens; ++t) {
            alignas(64) int32_t whole[32];
            const int64_t at = i * out.tokens + t;
            const float d = round_chunk(x + (t - first) * stride + 32 * i, kWide ? kLevelsWide : kLevelsByte, whole);
            int8_t* codes = out.codes + at * (kWide ? 64 : 32);
            if (kWide) {
                for (int j = 0; j < 32; ++j) codes[j] = static_cast<int8_t>((whole[j] + 8) >> 4);
                for (int j = 0; j < 32; ++j) codes[32 + j] = static_cast<int8_t>(((whole[j] + 8) & 15) - 8);
            } else {
                for (int j = 0; j < 32; ++j) codes[j] = static_cast<int8_t>(whole[j]);
            }
            out.d[at] = d;
            for (int part = 0; part < kParts; ++part) {
                int32_t sum = 0;
                for (int j = 0; j < kSize; ++j) sum += whole[part * kSize + j];
                const int64_t group_at = (i * kParts + part) * out.tokens + t;
                out.start[group_at] = -form.offset * sum;
                if (form.has_min) out.s[group_at] = d * static_cast<float>(sum);
            }
        }
    }
}

static void quantize(const float* x, int64_t stride, int64_t cols, const QuantForm& form, int64_t first,
                     int64_t tokens, const QuantBlock& out) {
    const auto as = out.wide ? (form.parts == 1 ? quantize_as<true, 1> : quantize_as<true, 2>)
                             : (form.parts == 1 ? quantize_as<false, 1> : quantize_as<false, 2>);
    as(x, stride, cols, form, first, tokens, out);
}
