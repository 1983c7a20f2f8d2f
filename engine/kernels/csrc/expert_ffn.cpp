// The expert feed-forward of one layer: all (token, expert) pairs in three parallel loops.
//
//   1. per expert and group of rows: gate and up, then SwiGLU   -> hidden (pairs, ff)
//   2. per expert and group of rows: down                       -> partial (pairs, hidden)
//   3. per token: weighted sum of its pairs, best expert first  -> y (tokens, hidden)
//
// A pair's numbers depend on its token and expert alone, and step 3 has a fixed order, so a token's
// result does not depend on who shares its experts.
#include "activations.h"
#include "thread_pool.h"

namespace lamina {
namespace {

// The pairs of one expert: which token and which row of the pair buffers.
struct Group {
    int32_t expert;
    std::vector<int32_t> tokens;
    std::vector<int32_t> pairs;
};

std::vector<Group> group_by_expert(const int32_t* ids, int64_t tokens, int64_t k, int64_t experts) {
    std::vector<int32_t> slot(static_cast<size_t>(experts), -1);
    std::vector<Group> groups;
    for (int64_t pair = 0; pair < tokens * k; ++pair) {
        const int32_t expert = ids[pair];
        if (expert < 0) continue;
        int32_t& at = slot[static_cast<size_t>(expert)];
        if (at < 0) {
            at = static_cast<int32_t>(groups.size());
            groups.push_back({expert, {}, {}});
        }
        groups[static_cast<size_t>(at)].tokens.push_back(static_cast<int32_t>(pair / k));
        groups[static_cast<size_t>(at)].pairs.push_back(static_cast<int32_t>(pair));
    }
    return groups;
}

Rows expert_rows(const Matrix& w, int32_t expert, int64_t first, int64_t count) {
    const size_t stride = row_bytes(w.type, w.cols);
    const uint8_t* rows = w.data + static_cast<size_t>(expert) * w.expert_stride;
    return {rows + static_cast<size_t>(first) * stride, stride, w.cols, count, w.type};
}

// Runs f(group, first row, rows) for every group and block of rows. Big groups come first, so that
// the last tasks are small and no thread is left with a long one.
template <typename F>
void over_rows(const std::vector<Group>& groups, int64_t rows, F f) {
    std::vector<const Group*> order;
    for (const Group& g : groups) order.push_back(&g);
    std::stable_sort(order.begin(), order.end(), [](const Group* a, const Group* b) {
        return a->pairs.size() > b->pairs.size();
    });
    const int64_t blocks = (rows + kTaskRows - 1) / kTaskRows;
    parallel_for(static_cast<int64_t>(order.size()) * blocks, [&](int64_t task) {
        const int64_t first = task % blocks * kTaskRows;
        f(*order[static_cast<size_t>(task / blocks)], first, std::min(kTaskRows, rows - first));
    });
}

std::vector<float*> rows_of(float* buffer, int64_t width, const std::vector<int32_t>& pairs, int64_t first) {
    std::vector<float*> out;
    out.reserve(pairs.size());
    for (int32_t pair : pairs) out.push_back(buffer + pair * width + first);
    return out;
}

}  // namespace

void expert_ffn(const float* x, int64_t tokens, int64_t k, const Matrix& gate, const Matrix& up,
                const Matrix& down, const int32_t* ids, const float* weights, int levels, float* y) {
    const Variant& v = variant();
    const int64_t ff = gate.rows, hidden = down.rows, pairs = tokens * k;
    const std::vector<Group> groups = group_by_expert(ids, tokens, k, gate.experts);
    std::vector<float> inner(static_cast<size_t>(pairs * ff)), upper(inner.size());
    const Activations input(v, x, tokens, gate.cols, is_float(gate.type) ? 0 : levels);
    const bool same = is_float(gate.type) == is_float(up.type) || levels == 0;
    const Activations other(v, x, same ? 0 : tokens, up.cols, is_float(up.type) ? 0 : levels);
    over_rows(groups, ff, [&](const Group& g, int64_t first, int64_t count) {
        const int64_t n = static_cast<int64_t>(g.pairs.size());
        const std::vector<float*> a = rows_of(inner.data(), ff, g.pairs, first);
        const std::vector<float*> b = rows_of(upper.data(), ff, g.pairs, first);
        input.dot(expert_rows(gate, g.expert, first, count), g.tokens.data(), n, a.data());
        (same ? input : other).dot(expert_rows(up, g.expert, first, count), g.tokens.data(), n, b.data());
        for (size_t i = 0; i < a.size(); ++i) v.swiglu(a[i], b[i], count, a[i]);
    });
    const Activations middle(v, inner.data(), pairs, ff, is_float(down.type) ? 0 : levels);
    std::vector<float> partial(static_cast<size_t>(pairs * hidden));
    over_rows(groups, hidden, [&](const Group& g, int64_t first, int64_t count) {
        const std::vector<float*> out = rows_of(partial.data(), hidden, g.pairs, first);
        middle.dot(expert_rows(down, g.expert, first, count), g.pairs.data(),
                   static_cast<int64_t>(g.pairs.size()), out.data());
    });
    parallel_for(tokens, [&](int64_t t) {
        float* out = y + t * hidden;
        std::memset(out, 0, static_cast<size_t>(hidden) * sizeof(float));
        for (int64_t i = t * k; i < (t + 1) * k; ++i) {
            if (ids[i] < 0) continue;
            const float* row = &partial[static_cast<size_t>(i * hidden)];
            for (int64_t j = 0; j < hidden; ++j) out[j] += weights[i] * row[j];
        }
    });
}

}  // namespace lamina
