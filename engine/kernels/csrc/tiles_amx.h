// Many tokens against a panel by the tile unit (AMX): activations of 16 tokens are one operand as they
// lie, the panel's words of four columns the other. For formats with groups of 32: a tile instruction
// takes as long for 16 columns. Included by core_bytes.h.

// Fewer tokens are faster without.
constexpr int tiles_least(bool wide) { return wide ? 8 : 10; }

// Tiles 0-3 hold sums, 4 and 5 activations, 6 and 7 weights.
constexpr int kSumTiles = 4, kActivationTiles = 2, kWeightTiles = 2;

// The shapes of this thread's tiles.
class TileShapes {
public:
    explicit TileShapes(bool used) : used_(used) {
        if (!used_) return;
        struct {
            uint8_t palette, start_row, reserved[14];
            uint16_t row_bytes[16];
            uint8_t rows[16];
        } shapes = {};
        static_assert(sizeof shapes == 64, "as the processor reads it");
        shapes.palette = 1;
        for (int i = 0; i < kSumTiles + kActivationTiles + kWeightTiles; ++i) {
            const bool sums = i < kSumTiles, weights = i >= kSumTiles + kActivationTiles;
            shapes.rows[i] = static_cast<uint8_t>(weights ? 8 : kTileTokens);
            shapes.row_bytes[i] = static_cast<uint16_t>(sums || weights ? 64 : 32);
        }
        // gcc 12 does not know that the next instruction reads memory.
        asm volatile("" ::"r"(&shapes) : "memory");
        _tile_loadconfig(&shapes);
    }
    ~TileShapes() {
        if (used_) _tile_release();
    }
    TileShapes(const TileShapes&) = delete;
    TileShapes& operator=(const TileShapes&) = delete;

private:
    const bool used_;
};

// sums[token][row] of one group: low ones, then high ones of wide activations. Groups take turns with
// the tiles, since one's sums are stored long after the next one's have begun.
template <bool kWide>
static inline void multiply_group(int64_t turn, const uint8_t* weights, const int8_t* values,
                                  int32_t (*sums)[kTileTokens][kLanes]) {
    constexpr int kWidth = kWide ? 64 : 32;
#define LAMINA_GROUP(LOW, HIGH, ACTIVATIONS, WEIGHTS)                      \
    do {                                                                   \
        _tile_loadd(WEIGHTS, weights, 64);                                 \
        _tile_loadd(ACTIVATIONS, kWide ? values + 32 : values, kWidth);    \
        _tile_zero(LOW);                                                   \
        _tile_dpbssd(LOW, ACTIVATIONS, WEIGHTS);                           \
        if (kWide) {                                                       \
            _tile_loadd(ACTIVATIONS, values, kWidth);                      \
            _tile_zero(HIGH);                                              \
            _tile_dpbssd(HIGH, ACTIVATIONS, WEIGHTS);                      \
        }                                                                  \
        _tile_stored(LOW, sums[0], 64);                                    \
        if (kWide) _tile_stored(HIGH, sums[1], 64);                        \
    } while (0)
    if (turn % 2 == 0) {
        LAMINA_GROUP(0, 1, 4, 6);
    } else {
        LAMINA_GROUP(2, 3, 5, 7);
    }
#undef LAMINA_GROUP
}

// Adds the sums of one group to those of `tokens` tokens.
template <bool kHasMin, bool kWide>
static inline void add_group(const int32_t (*sums)[kTileTokens][kLanes], const float* scales, const float* mins,
                             const float* __restrict d, const float* __restrict s, int tokens,
                             float (*__restrict acc)[kLanes]) {
    const Floats scale = Floats::load(scales), min = Floats::load(mins);
#pragma GCC unroll 4
    for (int n = 0; n < tokens; ++n) {
        Ints total{load_vector(sums[0][n])};
        if (kWide) total = total.plus_sixteen_times(Ints{load_vector(sums[1][n])});
        Floats sum = Floats::load(acc[n]);
        sum.add_product(Floats::of(total), scale.times(Floats::all(d[n])));
        if (kHasMin) sum.subtract_product(min, Floats::all(s[n]));
        sum.store(acc[n]);
    }
}

// As multiply_panel, for any number of tokens; the panel holds signed values. Of the last tile the
// tokens beyond are computed from whatever follows, and dropped. The tile unit works kAhead groups
// ahead of what turns its sums into floats.
template <bool kHasMin, bool kWide>
static void multiply_tiles(const Panel& panel, const QuantBlock& x, int64_t token, int64_t tokens, int64_t chunk,
                           int chunks, float (*acc)[kLanes]) {
    constexpr int kWidth = kWide ? 64 : 32, kAhead = 3;
    alignas(64) int32_t sums[kAhead + 1][2][kTileTokens][kLanes];
    asm volatile("" ::: "memory");  // the panel is in memory before tiles are loaded from it
    struct Unit {  // a tile of tokens and a group
        int64_t turn = 0, first = 0;
        int group = 0;
        void step(int groups) {
            ++turn;
            if (++group == groups) {
                group = 0;
                first += kTileTokens;
            }
        }
    };
    for (Unit next, unit; unit.first < tokens;) {
        if (next.first < tokens) {
            const int64_t at = (chunk + next.group) * x.tokens + token + next.first;
            multiply_group<kWide>(next.turn, panel.codes + next.group * Panel::kChunk, x.codes + at * kWidth,
                                  sums[next.turn % (kAhead + 1)]);
            next.step(chunks);
            if (next.turn <= kAhead && next.first < tokens) continue;
        }
        const int64_t left = tokens - unit.first, at = (chunk + unit.group) * x.tokens + token + unit.first;
        add_group<kHasMin, kWide>(sums[unit.turn % (kAhead + 1)], panel.scales + unit.group * kLanes,
                                  panel.mins + unit.group * kLanes, x.d + at, kHasMin ? x.s + at : nullptr,
                                  static_cast<int>(left < kTileTokens ? left : kTileTokens), acc + unit.first);
        unit.step(chunks);
    }
}
