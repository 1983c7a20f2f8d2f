// The expert feed-forward of one layer: all (token, expert) pairs in parallel loops over the experts.
//
//   1. per expert and some rows: gate and up, then SwiGLU   -> inner (pairs, ff)
//   2. per expert and some rows: down                       -> partial (pairs, hidden)
//   3. per token: weighted sum of its pairs, best expert first  -> y (tokens, hidden)
//
// Between them the operands are rounded. Pairs lie in the order of their experts, so that the tokens
// of an expert are one block. A pair's numbers depend on its token and expert alone, and step 3 has a
// fixed order, so a token's result does not depend on who shares its experts.
#include "activations.h"
#include "thread_pool.h"

namespace lamina {
namespace {

// The pairs of one expert: places first .. first + count - 1 in the order of experts.
struct Group {
    int32_t expert;
    int64_t first, count;
};

// Which pair stands at which place. Pairs without an expert stand nowhere.
struct Grouping {
    Group* groups;
    int64_t num_groups;
    int64_t* place;   // (tokens * k,) of a pair
    int64_t* token;   // (places,)
    int64_t* group;   // (places,)
    int64_t places;
};

// Groups with many tokens come first, so that the last tasks of a loop are small and no thread is
// left with a long one.
Grouping group_by_expert(Arena& arena, const int32_t* ids, int64_t tokens, int64_t k, int64_t experts) {
    const int64_t pairs = tokens * k;
    int64_t* count = arena.take<int64_t>(static_cast<size_t>(experts));
    std::fill(count, count + experts, 0);
    Grouping out{};
    out.groups = arena.take<Group>(static_cast<size_t>(std::min(pairs, experts)));
    out.place = arena.take<int64_t>(static_cast<size_t>(pairs));
    out.token = arena.take<int64_t>(static_cast<size_t>(pairs));
    out.group = arena.take<int64_t>(static_cast<size_t>(pairs));
    for (int64_t pair = 0; pair < pairs; ++pair) {
        if (ids[pair] >= 0 && count[ids[pair]]++ == 0) out.groups[out.num_groups++] = {ids[pair], 0, 0};
    }
    std::sort(out.groups, out.groups + out.num_groups, [&](const Group& a, const Group& b) {
        const int64_t more = count[a.expert] - count[b.expert];
        return more != 0 ? more > 0 : a.expert < b.expert;
    });
    int64_t* index = count;  // from here on the group of an expert
    for (int64_t g = 0; g < out.num_groups; ++g) {
        Group& group = out.groups[g];
        group.first = out.places;
        out.places += count[group.expert];
        index[group.expert] = g;
    }
    for (int64_t pair = 0; pair < pairs; ++pair) {
        if (ids[pair] < 0) continue;
        const int64_t g = index[ids[pair]];
        const int64_t place = out.groups[g].first + out.groups[g].count++;
        out.place[pair] = place;
        out.token[place] = pair / k;
        out.group[place] = g;
    }
    return out;
}

// A tall array of floats and its rows.
struct Table {
    float* data;
    float** rows;
    int64_t width;
};

Table table(Arena& arena, int64_t count, int64_t width) {
    Table out{arena.take<float>(static_cast<size_t>(count * width)),
              arena.take<float*>(static_cast<size_t>(count)), width};
    for (int64_t i = 0; i < count; ++i) out.rows[i] = out.data + i * width;
    return out;
}

// Operands that take their groups' share of rows of floats in the order of places.
const Operand* share(Arena& arena, const float* const* rows, const Grouping& by) {
    Operand* out = arena.take<Operand>(static_cast<size_t>(by.num_groups));
    for (int64_t g = 0; g < by.num_groups; ++g) out[g] = {rows + by.groups[g].first, {}, false};
    return out;
}

// The tokens of each group as an operand for a matrix of `type`.
const Operand* gather(Arena& arena, const float* x, int64_t tokens, int64_t cols, const Grouping& by, int type,
                      int levels) {
    const Operand all = operand(arena, x, tokens, cols, type, levels);
    if (!all.rounded) {
        const float** rows = arena.take<const float*>(static_cast<size_t>(by.places));
        for (int64_t i = 0; i < by.places; ++i) rows[i] = all.rows[by.token[i]];
        return share(arena, rows, by);
    }
    Operand* out = arena.take<Operand>(static_cast<size_t>(by.num_groups));
    const QuantForm form = variant().layout(type).form;
    for (int64_t g = 0; g < by.num_groups; ++g) {
        out[g] = all;
        if (tokens > 1) out[g].block = make_block(arena, by.groups[g].count, cols, form, levels);
    }
    if (tokens > 1) {
        parallel_for(by.num_groups, [&](int64_t g) {
            for (int64_t i = 0; i < by.groups[g].count; ++i) {
                copy_token(all.block, by.token[by.groups[g].first + i], cols, form, i, out[g].block);
            }
        });
    }
    return out;
}

// The rows of each group, which stand one behind the other, as an operand for a matrix of `type`.
const Operand* split(Arena& arena, const Table& x, const Grouping& by, int type, int levels) {
    if (!is_rounded(type, levels)) {
        return share(arena, operand(arena, x.data, by.places, x.width, type, levels).rows, by);
    }
    Operand* out = arena.take<Operand>(static_cast<size_t>(by.num_groups));
    const Variant& v = variant();
    const QuantForm form = v.layout(type).form;
    for (int64_t g = 0; g < by.num_groups; ++g) {
        out[g] = {nullptr, make_block(arena, by.groups[g].count, x.width, form, levels), true};
    }
    parallel_for((by.places + 7) / 8, [&](int64_t task) {
        const int64_t end = std::min(by.places, (task + 1) * 8);
        for (int64_t i = task * 8, next; i < end; i = next) {  // as far as the group goes
            const int64_t g = by.group[i], first = by.groups[g].first;
            next = std::min(end, first + by.groups[g].count);
            v.quantize(x.rows[i], x.width, x.width, form, i - first, next - i, out[g].block);
        }
    });
    return out;
}

Rows expert_rows(const Matrix& w, int32_t expert, int64_t first, int64_t count) {
    const uint8_t* data = w.data + static_cast<size_t>(expert) * w.expert_stride;
    return {data, row_bytes(w.type, w.cols), w.cols, first, count, w.type};
}

// Runs f(group index, first row, rows) for every group and some rows of its matrix.
template <typename F>
void over_rows(const Grouping& by, const Matrix& w, F f) {
    const int64_t size = rows_of_task(w.rows * by.num_groups);
    const int64_t blocks = (w.rows + size - 1) / size;
    parallel_for(by.num_groups * blocks, [&](int64_t task) {
        const int64_t first = task % blocks * size;
        f(task / blocks, first, std::min(size, w.rows - first));
    });
}

}  // namespace

void expert_ffn(const float* x, int64_t tokens, int64_t k, const Matrix& gate, const Matrix& up, const Matrix& down,
                const int32_t* ids, const float* weights, int levels, float* y, int32_t* counts) {
    const Variant& v = variant();
    Arena& arena = Arena::begin();
    const Grouping by = group_by_expert(arena, ids, tokens, k, gate.experts);
    const Operand* for_gate = gather(arena, x, tokens, gate.cols, by, gate.type, levels);
    const Operand* for_up =
        gate.type == up.type ? for_gate : gather(arena, x, tokens, up.cols, by, up.type, levels);
    const Table inner = table(arena, by.places, gate.rows), upper = table(arena, by.places, up.rows);
    over_rows(by, gate, [&](int64_t g, int64_t first, int64_t count) {
        const Group& group = by.groups[g];
        for_gate[g].dot(expert_rows(gate, group.expert, first, count), 0, group.count, inner.rows + group.first);
        for_up[g].dot(expert_rows(up, group.expert, first, count), 0, group.count, upper.rows + group.first);
        for (int64_t i = group.first; i < group.first + group.count; ++i) {
            v.swiglu(inner.rows[i] + first, upper.rows[i] + first, count, inner.rows[i] + first);
        }
    });
    const Operand* middle = split(arena, inner, by, down.type, levels);
    const Table partial = table(arena, by.places, down.rows);
    over_rows(by, down, [&](int64_t g, int64_t first, int64_t count) {
        const Group& group = by.groups[g];
        middle[g].dot(expert_rows(down, group.expert, first, count), 0, group.count, partial.rows + group.first);
    });
    parallel_for(tokens, [&](int64_t t) {
        float* out = y + t * down.rows;
        std::memset(out, 0, static_cast<size_t>(down.rows) * sizeof(float));
        for (int64_t i = t * k; i < (t + 1) * k; ++i) {
            if (ids[i] >= 0) v.add_scaled(weights[i], partial.rows[by.place[i]], down.rows, out);
        }
    });
    for (int64_t g = 0; counts != nullptr && g < by.num_groups; ++g) {
        counts[by.groups[g].expert] += static_cast<int32_t>(by.groups[g].count);
    }
}

}  // namespace lamina
