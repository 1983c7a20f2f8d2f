// Many tokens against a panel by the tile unit (AMX): activations of 16 tokens are one operand as they
// lie, the panel's words of four columns the other. For formats with groups of 32: a tile instruction
// takes as long for 16 columns. Included by core_bytes.h.

// Fewer tokens are faster without.
constexpr int tiles_least(bool wide) { return wide ? 7 : 10; }

// Tiles 0-3 hold sums, 4 and 5 activations, 6 and 7 weights.
constexpr int kSumTiles = 4, kActivationTiles = 2, kWeightTiles = 2;

constexpr int kPanels = 2;        // share the tiles of activations
constexpr int kGroupsAtOnce = 2;  // sums of so many become floats together

// The shapes of this thread's tiles, for `tokens` of at most kTileTokens at once: what a tile does takes
// time for each.
class TileShapes {
public:
    explicit TileShapes(int64_t tokens) {
        struct {
            uint8_t palette, start_row, reserved[14];
            uint16_t row_bytes[16];
            uint8_t rows[16];
        } shapes = {};
        static_assert(sizeof shapes == 64, "as the processor reads it");
        shapes.palette = 1;
        for (int i = 0; i < kSumTiles + kActivationTiles + kWeightTiles; ++i) {
            const bool sums = i < kSumTiles, weights = i >= kSumTiles + kActivationTiles;
            shapes.rows[i] = static_cast<uint8_t>(weights ? 8 : tokens);
            shapes.row_bytes[i] = static_cast<uint16_t>(sums || weights ? 64 : 32);
        }
        // gcc 12 does not know that the next instruction reads memory.
        asm volatile("" ::"r"(&shapes) : "memory");
        _tile_loadconfig(&shapes);
    }
    ~TileShapes() { _tile_release(); }
    TileShapes(const TileShapes&) = delete;
    TileShapes& operator=(const TileShapes&) = delete;
};

// Of a group: sums[panel][low, or high of wide activations][token][row].
using GroupSums = int32_t[kPanels][2][kTileTokens][kLanes];

// The tile unit. A product takes 52 cycles, and another can begin every 16 of them, as long as storing
// sums takes turns with computing others: so every product is followed by a store of the one before
// the last.
template <bool kWide>
class TileUnit {
public:
    // `unused`: sums that nobody reads before they are computed.
    explicit TileUnit(GroupSums& unused) { follow(unused[0][0], unused[0][1]); }

    // `sums` of one group's 32 columns are in memory after the next call, or after flush().
    void multiply(const uint8_t* first, const uint8_t* second, const int8_t* values, GroupSums& sums) {
#define LAMINA_PAIR(T0, X0, W0, BEFORE0, T1, X1, W1, BEFORE1) \
    do {                                                      \
        _tile_zero(T0);                                       \
        _tile_dpbssd(T0, X0, W0);                             \
        _tile_stored(BEFORE0, before_[0], 64);                \
        _tile_zero(T1);                                       \
        _tile_dpbssd(T1, X1, W1);                             \
        _tile_stored(BEFORE1, before_[1], 64);                \
    } while (0)
        _tile_loadd(6, first, 64);
        _tile_loadd(7, second, 64);
        if (kWide) {
            _tile_loadd(4, values + 32, 64);
            _tile_loadd(5, values, 64);
            LAMINA_PAIR(0, 4, 6, 2, 1, 5, 6, 3);
            follow(sums[0][0], sums[0][1]);
            LAMINA_PAIR(2, 4, 7, 0, 3, 5, 7, 1);
            follow(sums[1][0], sums[1][1]);
        } else {
            if (odd_) {
                _tile_loadd(5, values, 32);
                LAMINA_PAIR(2, 5, 6, 0, 3, 5, 7, 1);
            } else {
                _tile_loadd(4, values, 32);
                LAMINA_PAIR(0, 4, 6, 2, 1, 4, 7, 3);
            }
            follow(sums[0][0], sums[1][0]);
            odd_ = !odd_;
        }
#undef LAMINA_PAIR
    }

    void flush() {
        if (odd_) {
            _tile_stored(0, before_[0], 64);
            _tile_stored(1, before_[1], 64);
        } else {
            _tile_stored(2, before_[0], 64);
            _tile_stored(3, before_[1], 64);
        }
    }

private:
    void follow(int32_t (*first)[kLanes], int32_t (*second)[kLanes]) {
        before_[0] = first;
        before_[1] = second;
    }

    int32_t (*before_[2])[kLanes];
    bool odd_ = false;  // the last pair is in tiles 0 and 1
};

// Some tokens of a tile, and groups.
struct Batch {
    int64_t first, tokens;
    int group, groups;
};

// Adds a batch's sums of one panel, group by group, to those of its tokens begin .. end - 1.
template <bool kHasMin, bool kWide, int kGroups>
static inline void add_sums(const GroupSums* sums, int which, const Panel& panel, int group, const float* __restrict d,
                            const float* __restrict s, int64_t stride, int64_t begin, int64_t end,
                            float (*__restrict acc)[kLanes]) {
    Floats scale[kGroups], min[kGroups];
    for (int g = 0; g < kGroups; ++g) {
        scale[g] = Floats::load(panel.scales + (group + g) * kLanes);
        if (kHasMin) min[g] = Floats::load(panel.mins + (group + g) * kLanes);
    }
#pragma GCC unroll 4
    for (int64_t n = begin; n < end; ++n) {
        Floats sum = Floats::load(acc[n]);
        for (int g = 0; g < kGroups; ++g) {
            Ints total{load_vector(sums[g][which][0][n])};
            if (kWide) total = total.plus_sixteen_times(Ints{load_vector(sums[g][which][1][n])});
            sum.add_product(Floats::of(total), scale[g].times(Floats::all(d[g * stride + n])));
            if (kHasMin) sum.subtract_product(min[g], Floats::all(s[g * stride + n]));
        }
        sum.store(acc[n]);
    }
}

// acc[panel][t] += panel . x[token + t], the panels' codes signed values. Of the last tile the tokens
// beyond are computed from whatever follows, and dropped. The tile unit works a batch ahead of what
// turns sums into floats, a group and a share of the tokens in turns.
template <bool kHasMin, bool kWide>
static void multiply_tiles(const Panel* panels, const QuantBlock& x, int64_t token, int64_t tokens, int64_t chunk,
                           int chunks, float (*acc)[kByteTokens][kLanes]) {
    constexpr int kWidth = kWide ? 64 : 32;
    alignas(64) GroupSums sums[2][kGroupsAtOnce];
    asm volatile("" ::: "memory");  // the panels are in memory before tiles are loaded from them
    TileUnit<kWide> unit(sums[1][0]);
    const auto batch = [&](int64_t first, int group) {
        return Batch{first, smaller(kTileTokens, tokens - first), group,
                     static_cast<int>(smaller(kGroupsAtOnce, chunks - group))};
    };
    const auto add = [&](const Batch& b, const GroupSums* from, int64_t begin, int64_t end) {
        const int64_t at = (chunk + b.group) * x.tokens + token + b.first;
        const float* s = kHasMin ? x.s + at : nullptr;
        for (int p = 0; p < kPanels; ++p) {
            if (b.groups == kGroupsAtOnce) {
                add_sums<kHasMin, kWide, kGroupsAtOnce>(from, p, panels[p], b.group, x.d + at, s, x.tokens, begin, end,
                                                        acc[p] + b.first);
            } else {
                add_sums<kHasMin, kWide, 1>(from, p, panels[p], b.group, x.d + at, s, x.tokens, begin, end,
                                            acc[p] + b.first);
            }
        }
    };
    const auto values = [&](int group, int64_t first) {
        return x.codes + ((chunk + group) * x.tokens + token + first) * kWidth;
    };
    const auto fetch = [&](int group, int64_t first) {  // from the second-level cache, in the order of use
        const int8_t* p = group < chunks ? values(group, first) : values(group - chunks, first + kTileTokens);
        for (int i = 0; i < kTileTokens * kWidth; i += 64) __builtin_prefetch(p + i);
    };
    Batch last{0, 0, 0, 0};
    int turn = 0;
    for (int64_t first = 0; first < tokens; first += kTileTokens) {
        for (int group = 0; group < chunks; group += kGroupsAtOnce, turn = 1 - turn) {
            const Batch next = batch(first, group);
            for (int g = 0; g < kGroupsAtOnce; ++g) {
                if (g < next.groups) {
                    const int codes = (group + g) * Panel::kChunk;
                    fetch(group + g + kGroupsAtOnce, first);
                    unit.multiply(panels[0].codes + codes, panels[1].codes + codes, values(group + g, first),
                                  sums[turn][g]);
                }
                if (last.tokens) {
                    add(last, sums[1 - turn], last.tokens * g / kGroupsAtOnce, last.tokens * (g + 1) / kGroupsAtOnce);
                }
            }
            last = next;
        }
    }
    unit.flush();
    add(last, sums[1 - turn], 0, last.tokens);
}

// As dot_bytes_of, for a format with groups of 32.
template <int type>
static void dot_tiles_of(const Rows& rows, const QuantBlock& x, int64_t token, int64_t tokens, float* const* y) {
    using B = Block<type>;
    const auto multiply = x.wide ? multiply_tiles<B::has_min, true> : multiply_tiles<B::has_min, false>;
    const TileShapes shapes(smaller(kTileTokens, tokens));
    Panel panels[kPanels];
    alignas(64) float acc[kPanels][kByteTokens][kLanes];
    for (int64_t first = 0; first < rows.count; first += kPanels * kLanes) {
        const RowSet<type> sets[kPanels] = {{rows, first, first == 0}, {rows, first + kLanes, first == 0}};
        for (auto& sums : acc) std::memset(sums, 0, static_cast<size_t>(tokens) * sizeof sums[0]);
        for (int64_t column = 0; column < rows.cols; column += kStep) {
            const int chunks = static_cast<int>(smaller(kStep, rows.cols - column) / 32);
            for (int p = 0; p < kPanels; ++p) {
                sets[p].unpack(column, kPanels * kLanes, panels[p]);
                panels[p].transpose_codes(chunks);
                panels[p].subtract(B::offset, chunks);
            }
            multiply(panels, x, token, tokens, column / 32, chunks, acc);
        }
        for (int64_t t = 0; t < tokens; ++t) {
            for (int p = 0; p < kPanels; ++p) sets[p].copy_out(acc[p][t], y[t]);
        }
    }
}
