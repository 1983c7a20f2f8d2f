// y = x W^T over the thread pool.
#include "activations.h"
#include "thread_pool.h"

namespace lamina {

void linear(const float* x, int64_t tokens, const Matrix& w, int levels, float* y) {
    Arena& arena = Arena::begin();
    const Operand input = operand(arena, x, tokens, w.cols, w.type, levels);
    float** out = arena.take<float*>(static_cast<size_t>(tokens));
    for (int64_t t = 0; t < tokens; ++t) out[t] = y + t * w.rows;
    const size_t stride = row_bytes(w.type, w.cols);
    const int64_t size = rows_of_task(w.rows), blocks = (w.rows + size - 1) / size;
    const int64_t tile = input.tile(w.cols), tiles = (tokens + tile - 1) / tile;
    parallel_for(tiles * blocks, [&](int64_t task) {  // all rows of a tile one after the other
        const int64_t first = task % blocks * size, token = task / blocks * tile;
        const Rows rows{w.data, stride, w.cols, first, std::min(size, w.rows - first), w.type};
        input.dot(rows, token, std::min(tile, tokens - token), out);
    });
}

}  // namespace lamina
