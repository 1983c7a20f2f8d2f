// y = x W^T over the thread pool.
#include "activations.h"
#include "thread_pool.h"

namespace lamina {

void linear(const float* x, int64_t tokens, const Matrix& w, int levels, float* y) {
    const Variant& v = variant();
    const Activations input(v, x, tokens, w.cols, is_float(w.type) ? 0 : levels);
    std::vector<float*> out(static_cast<size_t>(tokens));
    for (int64_t t = 0; t < tokens; ++t) out[static_cast<size_t>(t)] = y + t * w.rows;
    const size_t stride = row_bytes(w.type, w.cols);
    parallel_for((w.rows + kTaskRows - 1) / kTaskRows, [&](int64_t task) {
        const int64_t first = task * kTaskRows;
        const int64_t count = std::min(kTaskRows, w.rows - first);
        const Rows rows{w.data + static_cast<size_t>(first) * stride, stride, w.cols, count, w.type};
        std::vector<float*> part(out);
        for (float*& p : part) p += first;
        input.dot(rows, nullptr, tokens, part.data());
    });
}

}  // namespace lamina
