// Products of activations with matrices; see engine/kernels/ops/matrix.py for shapes.
#pragma once

#include "activations.h"
#include "kernels.h"
#include "streams.h"

namespace lamina {

// y (tokens, w.rows) = x w^T
struct Product {
    Matrix w;
    float* y;
};

// Several products of the same x (tokens, cols), in one loop; x is rounded once for all matrices whose
// formats ask for the same.
void linears(Arena& arena, const float* x, int64_t tokens, const Product* products, int64_t count, int levels);

// y (tokens, hidden) += sigmoid(share x) * down(silu(gate x) * up x)
struct GatedFFN {
    const float* x;  // (tokens, hidden)
    int64_t tokens;
    Matrix gate, up, down;
    Matrix share;    // one row
    int levels;
    float* y;
};
void gated_ffn(const GatedFFN& ffn);

}  // namespace lamina
