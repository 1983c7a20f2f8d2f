// What an instruction-set variant offers, and the plain structs its functions take.
//
// A variant is one compilation of core.h with its own flags and namespace; variants.cpp picks one at
// run time. Everything below takes raw pointers; shapes were checked in engine/kernels/ops.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lamina {

// ggml tensor types that the kernels compute with. Source: ggml.h.
enum Type : int {
    F32 = 0, F16 = 1, Q4_0 = 2, Q4_1 = 3, Q5_0 = 6, Q5_1 = 7, Q8_0 = 8, Q2_K = 10, Q3_K = 11,
    Q4_K = 12, Q5_K = 13, Q6_K = 14, IQ2_XXS = 16, IQ2_XS = 17, IQ3_XXS = 18, IQ1_S = 19,
    IQ4_NL = 20, IQ3_S = 21, IQ2_S = 22, IQ4_XS = 23, IQ1_M = 29, BF16 = 30, TQ1_0 = 34, TQ2_0 = 35,
    MXFP4 = 39, NVFP4 = 40, Q1_0 = 41, Q2_0 = 42,
};

inline bool is_float(int type) { return type == F32 || type == F16 || type == BF16; }

// Tokens that a tile of a matrix unit takes at once; it may read so far behind the last one.
constexpr int kTileTokens = 16;

// Some rows of a quantised (or float) matrix: `count` rows of `cols` weights from row `first` on,
// `row_bytes` apart.
struct Rows {
    const uint8_t* data;  // of row 0
    size_t row_bytes;
    int64_t cols;
    int64_t first;
    int64_t count;
    int type;
};

// Steps of a rounded activation to either side of zero. 12 bits are two bytes, 16 * high + low: no
// high byte is -128, and sums of 32 products with weights of up to 128 stay whole numbers that a float
// holds exactly.
constexpr int kLevelsByte = 127;
constexpr int kLevelsWide = 2032;

// What the weights of a format ask of rounded activations. A group of weights shares a scale.
struct QuantForm {
    int offset;    // codes of weights are so much above their values
    int parts;     // groups in 32 weights, 1 or 2
    bool has_min;  // groups have minima
};

// The activations of some tokens, rounded per 32 values: x ~ d * q. The arrays run over tokens last,
// so that a chunk of columns of all tokens lies together.
struct QuantBlock {
    int8_t* codes;   // (cols / 32, tokens, 32) q; or (.., 64): 32 high bytes, then the low ones
    int32_t* start;  // (groups, tokens) -offset * sum(q), where a sum of products of codes begins
    float* d;        // (cols / 32, tokens)
    float* s;        // (groups, tokens) d * sum(q), for formats with minima
    int64_t tokens;
    bool wide;       // 12 bits
};

// Largest head that attention and the index take; ops/checks.py refuses larger ones.
constexpr int64_t kHeadDimMax = 1024;

// Some positions of one query token, for one KV head and its group of query heads. What comes out
// is relative to the part's own largest score: out = sum of exp(score - most) * value.
struct AttentionPart {
    const float* q;           // (group, head_dim)
    const void* k_pool;       // (pages, page_tokens, kv_heads, head_dim)
    const void* v_pool;
    const int64_t* offsets;   // (count,) elements from the start of a pool to a position's head
    int64_t count;            // positions, at least one
    int64_t head_dim;
    int64_t group;
    float scale;
    bool half;                // pools hold F16 instead of F32
    float* scores;            // (group, count), scratch
    float* out;               // (group, head_dim)
    float* most;              // (group,)
    float* sum;               // (group,) sum of exp(score - most)
};

// The parts of one query head, `stride` floats from one to the next.
struct PartSums {
    const float* out;
    const float* most;
    const float* sum;
    int64_t count;
    int64_t stride;
};

// Query tokens of one sequence against some of its block keys.
struct ScoreTask {
    const float* q;           // (tokens, heads, dim)
    const void* pool;
    const int64_t* offsets;   // (count,) elements from the start of the pool to a key
    int64_t tokens;
    int64_t count;
    int64_t heads;
    int64_t dim;
    int64_t stride;           // floats from one token's scores to the next one's
    bool half;                // the pool holds F16 instead of F32
    float* scores;            // (tokens, count) of a wider array
};

// Columns of a head's state that one task takes along the tokens of a span.
constexpr int64_t kDeltaColumns = 64;

// The gated delta rule over some columns of one head's state; strides are in floats, per token.
struct DeltaTask {
    const float* q;           // (tokens, key_dim) unit vectors, q divided by sqrt(key_dim)
    const float* k;
    const float* v;           // (tokens, columns)
    const float* decay;       // (tokens,) factors of the state
    const float* beta;        // (tokens,)
    float* state;             // (key_dim, columns)
    float* out;               // (tokens, columns)
    int64_t tokens;
    int64_t key_dim;          // at most 1024
    int64_t columns;          // a multiple of 8, at most kDeltaColumns
    int64_t key_stride;
    int64_t value_stride;
    int64_t gate_stride;
    int64_t state_stride;     // from one row of the state to the next
    int64_t out_stride;
};

// Weights in a block of a format, and its bytes; no weights when the kernels do not know the type.
struct Layout {
    int elements;
    int bytes;
    QuantForm form;
};

struct Variant {
    const char* name;
    Layout (*layout)(int type);
    // y[t][r] = rows[r] . x[t] for every row and token, r the row's number in its matrix. The order of
    // each sum depends on nothing but the number of columns. Floats are readable, and zero, up to the
    // next multiple of 8 columns.
    void (*dot_f32)(const Rows& rows, const float* const* x, int64_t tokens, float* const* y);
    void (*dot_bytes)(const Rows& rows, const QuantBlock& x, int64_t first, int64_t tokens, float* const* y);
    // Rounds rows of x, `stride` floats apart, to tokens first .. first + tokens - 1 of `out`; cols is
    // a multiple of 32. A chunk with a value that is not finite gets d = NaN.
    void (*quantize)(const float* x, int64_t stride, int64_t cols, const QuantForm& form, int64_t first,
                     int64_t tokens, const QuantBlock& out);
    // Expand one row to float32, exactly as the format defines.
    void (*expand)(int type, const uint8_t* row, int64_t cols, float* out);
    void (*rms_norm)(const float* x, const float* weight, float eps, int64_t dim, float* out);
    void (*swiglu)(const float* gate, const float* up, int64_t count, float* out);
    void (*softmax)(float* x, int64_t count);
    void (*attend_part)(const AttentionPart& part);
    // The softmax over all parts of a query head: out (head_dim,).
    void (*merge_parts)(const PartSums& parts, int64_t head_dim, float* out);
    void (*score_blocks)(const ScoreTask& task);
    void (*to_half)(const float* x, int64_t count, uint16_t* out);
    void (*scaled_silu)(const float* x, float scale, int64_t count, float* out);
    void (*sigmoid_gate)(float* x, const float* gate, int64_t count);
    // out = mean over streams of sigmoid(gates) * x; streams are `stride` floats apart.
    void (*gated_mean)(const float* x, const float* gates, int64_t streams, int64_t stride,
                       int64_t count, float* out);
    void (*add_scaled)(float weight, const float* y, int64_t count, float* acc);
    float (*dot)(const float* a, const float* b, int64_t count);
    // out = silu(sum over taps of kernel[i] * rows[i]); kernel rows are `stride` floats apart.
    void (*convolve)(const float* const* rows, const float* kernel, int64_t taps, int64_t stride,
                     int64_t count, float* out);
    void (*delta_rule)(const DeltaTask& task);
};

bool has_type(int type);            // whether the kernels compute with a ggml type
size_t row_bytes(int type, int64_t cols);

// Rows that one task of a loop over `rows` rows takes: enough work to be worth fetching a task, few
// enough to share them out evenly.
int64_t rows_of_task(int64_t rows);

const Variant& variant();           // the one in use
const Variant* const* variants(int* count);
bool set_variant(const char* name);

// Whole operations over the thread pool; see engine/kernels/ops for shapes. `levels`: activations
// are rounded to whole numbers of at most so much, kLevelsByte or kLevelsWide; 0: they stay float.
struct Matrix {
    const uint8_t* data;
    int type;
    int64_t rows, cols, experts;
    size_t expert_stride;  // bytes from one expert to the next
};

// counts[expert], unless null, grows by how many pairs each had.
void expert_ffn(const float* x, int64_t tokens, int64_t k, const Matrix& gate, const Matrix& up, const Matrix& down,
                const int32_t* ids, const float* weights, int levels, float* y, int32_t* counts);

struct AttentionBatch {
    const float* q;               // (tokens, heads, head_dim)
    float* out;                   // (tokens, heads, head_dim)
    const void* k_pool;
    const void* v_pool;
    const int32_t* page_table;    // (sequences, pages_max)
    const int32_t* sequence;      // (tokens,)
    const int32_t* positions;     // (tokens,)
    const int32_t* blocks;        // (tokens, best) ascending, -1 behind them; null: all positions
    int64_t tokens, heads, kv_heads, head_dim, page_tokens, pages_max;
    int64_t best, ratio;          // blocks per token, positions per block
    float scale;
    bool half;
};
void attention(const AttentionBatch& batch);

}  // namespace lamina
