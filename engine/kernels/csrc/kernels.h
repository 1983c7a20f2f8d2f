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

// Tokens computed against a group of rows before the rows are decoded again.
constexpr int kTokenTile = 64;

// Rows of a quantised (or float) matrix: `count` rows of `cols` weights, `row_bytes` apart.
struct Rows {
    const uint8_t* data;
    size_t row_bytes;
    int64_t cols;
    int64_t count;
    int type;
};

// One token's activations, quantised per 32 values: x ~ d * q. `s` holds d * sum(q) per 16 values,
// which the formats with a minimum need.
struct QuantToken {
    const int16_t* q;
    const float* d;
    const float* s;
};

// One query token of paged attention for one KV head and its group of query heads.
struct AttentionTask {
    const float* q;           // (group, head_dim)
    float* out;               // (group, head_dim)
    const void* k_pool;       // (pages, page_tokens, kv_heads, head_dim)
    const void* v_pool;
    const int32_t* pages;     // page table of the token's sequence
    int64_t num_positions;    // attends to positions 0 .. num_positions - 1
    int64_t page_tokens;
    int64_t position_stride;  // elements from one position to the next: kv_heads * head_dim
    int64_t head_offset;      // elements: kv_head * head_dim
    int64_t head_dim;
    int64_t group;
    float scale;
    bool half;                // pools hold F16 instead of F32
    float* scratch;           // (group, num_positions)
};

struct Variant {
    const char* name;
    // y[t][r] = dot(rows[r], x[t]) for every row and token; the order of each sum is that of the
    // columns in eight lanes, whatever the number of rows and tokens. x is readable, and zero, up
    // to the next multiple of 8 columns.
    void (*dot_f32)(const Rows& rows, const float* const* x, int64_t tokens, float* const* y);
    void (*dot_i8)(const Rows& rows, const QuantToken* x, int64_t tokens, float* const* y);
    // Quantise one token: q (cols), d (cols / 32), s (cols / 16). cols is a multiple of 32. A block
    // with a value that is not finite gets d = s = NaN.
    void (*quantize)(const float* x, int64_t cols, int16_t* q, float* d, float* s);
    // Expand one row to float32, exactly as the format defines.
    void (*expand)(int type, const uint8_t* row, int64_t cols, float* out);
    void (*rms_norm)(const float* x, const float* weight, float eps, int64_t dim, float* out);
    void (*swiglu)(const float* gate, const float* up, int64_t count, float* out);
    void (*softmax)(float* x, int64_t count);
    void (*attention)(const AttentionTask& task);
    void (*to_half)(const float* x, int64_t count, uint16_t* out);
};

bool has_type(int type);            // whether the kernels compute with a ggml type
int64_t block_elements(int type);   // weights in a block
size_t row_bytes(int type, int64_t cols);

const Variant& variant();           // the one in use
const Variant* const* variants(int* count);
bool set_variant(const char* name);

// Whole operations over the thread pool; see engine/kernels/ops for shapes.
struct Matrix {
    const uint8_t* data;
    int type;
    int64_t rows, cols, experts;
};

void linear(const float* x, int64_t tokens, const Matrix& w, bool int8, float* y);
void expert_ffn(const float* x, int64_t tokens, int64_t k, const Matrix& gate, const Matrix& up,
                const Matrix& down, const int32_t* ids, const float* weights, bool int8, float* y);

struct AttentionBatch {
    const float* q;               // (tokens, heads, head_dim)
    float* out;                   // (tokens, heads, head_dim)
    const void* k_pool;
    const void* v_pool;
    const int32_t* page_table;    // (sequences, pages_max)
    const int32_t* sequence;      // (tokens,)
    const int32_t* positions;     // (tokens,)
    int64_t tokens, heads, kv_heads, head_dim, page_tokens, pages_max;
    float scale;
    bool half;
};
void attention(const AttentionBatch& batch);

}  // namespace lamina
