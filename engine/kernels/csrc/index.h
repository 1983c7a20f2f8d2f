// The two operations of the sparse index; see engine/kernels/ops/index.py for shapes and meaning.
#pragma once

#include <cstdint>

namespace lamina {

// Raw keys of a step on their way into the pool of block keys.
struct IndexKeys {
    const float* raw;            // (tokens, dim)
    const float* weight;         // (dim,)
    const double* inv_freq;      // (pairs,)
    void* pool;                  // (pages, page_blocks, dim)
    float* partial;              // (slots, dim)
    const int32_t* page_table;   // (sequences, pages_max)
    const int32_t* sequence;     // (tokens,)
    const int32_t* positions;    // (tokens,)
    const int32_t* offsets;      // (spans + 1,)
    const int32_t* slots;        // (spans,)
    int64_t spans, dim, pairs, page_blocks, pages_max, ratio;
    float eps;
    bool half;                   // the pool holds F16 instead of F32
};
void pool_index_keys(const IndexKeys& keys);

// Queries of a step that look for their best blocks.
struct BlockQueries {
    const float* q;              // (tokens, heads, dim)
    const void* pool;            // (pages, page_blocks, dim)
    const int32_t* page_table;   // (sequences, pages_max)
    const int32_t* sequence;     // (tokens,)
    const int32_t* positions;    // (tokens,)
    int32_t* blocks;             // (tokens, best)
    int64_t tokens, heads, dim, page_blocks, pages_max, ratio, best;
    bool half;
};
void select_blocks(const BlockQueries& queries);

}  // namespace lamina
