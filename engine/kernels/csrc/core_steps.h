// A row of weights in steps of 256 columns: unpacking one, and fetching those to come. Included by core.h.

// In place of std::min: what the linker may take from any variant must not use its instructions.
static inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

constexpr int kStep = 256;      // columns unpacked at a time
constexpr int kStepsAhead = 3;  // of a row, to be fetched from memory meanwhile

// Calls f<type>() for a run-time type.
#define LAMINA_QUANTISED(X)                                                                    \
    X(Q4_0) X(Q4_1) X(Q5_0) X(Q5_1) X(Q8_0) X(Q1_0) X(Q2_0) X(Q2_K) X(Q3_K) X(Q4_K) X(Q5_K)    \
    X(Q6_K) X(IQ2_XXS) X(IQ2_XS) X(IQ2_S) X(IQ3_XXS) X(IQ3_S) X(IQ1_S) X(IQ1_M) X(IQ4_NL)      \
    X(IQ4_XS) X(MXFP4) X(NVFP4) X(TQ1_0) X(TQ2_0)

// The blocks of `count` columns from `column` on.
template <int type, typename S>
static inline void unpack_step(const uint8_t* row, int64_t column, int count, S out) {
    using B = Block<type>;
    const uint8_t* block = row + column / B::elements * B::bytes;
    const auto unpack = [&](int i) {
        out.chunk = i * (B::elements / 32);
        out.group = out.chunk * (B::fine ? 2 : 1);
        B::unpack(block + i * B::bytes, out);
    };
    if constexpr (B::elements == kStep) {
        unpack(0);
    } else if (count == kStep) {
#pragma GCC unroll 8
        for (int i = 0; i < kStep / B::elements; ++i) unpack(i);
    } else {
        for (int i = 0; i < count / B::elements; ++i) unpack(i);
    }
}

template <int type>
constexpr int kStepBytes = kStep / Block<type>::elements * Block<type>::bytes;
template <>
constexpr int kStepBytes<F32> = 4 * kStep;
template <>
constexpr int kStepBytes<F16> = 2 * kStep;
template <>
constexpr int kStepBytes<BF16> = 2 * kStep;

template <int type, int kSteps>
static inline void fetch_ahead(const uint8_t* p) {
    for (int i = 0; i < kSteps * kStepBytes<type>; i += 64) __builtin_prefetch(p + i, 0, 2);
}

// Where to fetch while `column` of a row is computed. Behind the end of the row its place among the
// next `group` rows follows.
template <int type>
static inline size_t step_ahead(int64_t column, size_t row_bytes, int group) {
    const size_t ahead = static_cast<size_t>(column / kStep + kStepsAhead) * kStepBytes<type>;
    return ahead < row_bytes ? ahead : ahead + static_cast<size_t>(group - 1) * row_bytes;
}
