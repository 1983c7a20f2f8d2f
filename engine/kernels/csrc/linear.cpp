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
    const int64_t task_rows = rows_of_task(w.rows);
    parallel_for((w.rows + task_rows - 1) / task_rows, [&](int64_t task) {
        const int64_t first = task * task_rows;
        input.dot({w.data, stride, w.cols, first, std::min(task_rows, w.rows - first), w.type}, out);
    });
}

}  // namespace lamina
