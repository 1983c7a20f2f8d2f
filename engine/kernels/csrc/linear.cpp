// y = x W^T over the thread pool, for one matrix or several that share activations.
#include "linear.h"

#include "thread_pool.h"

namespace lamina {
namespace {

// The tasks of one product: blocks of rows, tile after tile of tokens.
struct Plan {
    Operand input;
    float** out;         // (tokens,) rows of y
    int64_t size, blocks, tile;
    int64_t first_task;
};

// Whether both matrices see the same form of activations.
bool alike(const Matrix& a, const Matrix& b, int levels) {
    if (is_rounded(a.type, levels) != is_rounded(b.type, levels)) return false;
    const QuantForm f = variant().layout(a.type).form, g = variant().layout(b.type).form;
    return !is_rounded(a.type, levels) || (f.offset == g.offset && f.parts == g.parts && f.has_min == g.has_min);
}

}  // namespace

void linears(Arena& arena, const float* x, int64_t tokens, const Product* products, int64_t count, int levels) {
    Plan* plans = arena.take<Plan>(static_cast<size_t>(count));
    int64_t tasks = 0;
    for (int64_t i = 0; i < count; ++i) {
        const Matrix& w = products[i].w;
        Plan& plan = plans[i];
        int64_t same = 0;
        while (same < i && !alike(products[same].w, w, levels)) ++same;
        plan.input = same < i ? plans[same].input : operand(arena, x, tokens, w.cols, w.type, levels);
        plan.out = arena.take<float*>(static_cast<size_t>(tokens));
        for (int64_t t = 0; t < tokens; ++t) plan.out[t] = products[i].y + t * w.rows;
        plan.size = rows_of_task(w.rows);
        plan.blocks = (w.rows + plan.size - 1) / plan.size;
        plan.tile = plan.input.tile(w.cols);
        plan.first_task = tasks;
        tasks += (tokens + plan.tile - 1) / plan.tile * plan.blocks;
    }
    parallel_for(tasks, [&](int64_t task) {
        int64_t i = count - 1;
        while (task < plans[i].first_task) --i;
        const Plan& plan = plans[i];
        const Matrix& w = products[i].w;
        const int64_t at = task - plan.first_task;
        const int64_t first = at % plan.blocks * plan.size, token = at / plan.blocks * plan.tile;
        const Rows rows{w.data, row_bytes(w.type, w.cols), w.cols, first, std::min(plan.size, w.rows - first), w.type};
        plan.input.dot(rows, token, std::min(plan.tile, tokens - token), plan.out);
    });
}

void gated_ffn(const GatedFFN& f) {
    Arena& arena = Arena::begin();
    const int64_t width = f.gate.rows, hidden = f.down.rows;
    float* gate = arena.take<float>(static_cast<size_t>(f.tokens * width));
    float* up = arena.take<float>(static_cast<size_t>(f.tokens * width));
    float* share = arena.take<float>(static_cast<size_t>(f.tokens));
    float* out = arena.take<float>(static_cast<size_t>(f.tokens * hidden));
    const Product in[] = {{f.gate, gate}, {f.up, up}, {f.share, share}};
    linears(arena, f.x, f.tokens, in, 3, f.levels);
    parallel_for(f.tokens, [&](int64_t t) {
        variant().swiglu(gate + t * width, up + t * width, width, gate + t * width);
    });
    const Product back{f.down, out};
    linears(arena, gate, f.tokens, &back, 1, f.levels);
    gated_add(f.y, out, share, f.tokens, 1, hidden, 1.0f, 1.0f);
}

}  // namespace lamina
