// Attention over one part of a token's positions, and the sum of the parts, in one instruction-set
// variant. Included by core.h.
//
// Order of sums: within a part over its positions, then over the parts from the first to the last.

constexpr int kValueTile = 8;  // values added while a stretch of the output is in registers

// out[g] += sum of weights[g][p] * values[p] over kTile positions, for every query head.
template <typename V, int kTile>
static inline void add_values(const AttentionPart& part, int64_t p, const float* const* values) {
    constexpr int64_t kWidth = sizeof(V) / sizeof(float);
    for (int64_t g = 0; g < part.group; ++g) {
        V weight[kTile];
        for (int i = 0; i < kTile; ++i) weight[i] = V::all(part.scores[g * part.count + p + i]);
        float* out = part.out + g * part.head_dim;
        for (int64_t j = 0; j < part.head_dim; j += kWidth) {
            V sum = V::load(out + j);
            for (int i = 0; i < kTile; ++i) sum.add_product(weight[i], V::load(values[i] + j));
            sum.store(out + j);
        }
    }
}

static void attend_part(const AttentionPart& part) {
    alignas(32) float buffer[kValueTile][kHeadDimMax];
    const auto row = [&](const void* pool, int64_t p, int i) {
        return pool_row(pool, part.half, part.offsets[p], part.head_dim, buffer[i]);
    };
    for (int64_t p = 0; p < part.count; ++p) {
        dot_heads(part.q, part.group, row(part.k_pool, p, 0), part.head_dim,
                  [&](int64_t g, float dot) { part.scores[g * part.count + p] = dot * part.scale; });
    }
    for (int64_t g = 0; g < part.group; ++g)
        part.sum[g] = exponentials(part.scores + g * part.count, part.count, &part.most[g]);
    std::memset(part.out, 0, static_cast<size_t>(part.group * part.head_dim) * 4);
    const bool wide = part.head_dim % (sizeof(Wide) / sizeof(float)) == 0;
    int64_t p = 0;
    for (; p + kValueTile <= part.count; p += kValueTile) {
        const float* values[kValueTile];
        for (int i = 0; i < kValueTile; ++i) values[i] = row(part.v_pool, p + i, i);
        (wide ? add_values<Wide, kValueTile> : add_values<Vec, kValueTile>)(part, p, values);
    }
    for (; p < part.count; ++p) {
        const float* value = row(part.v_pool, p, 0);
        add_values<Vec, 1>(part, p, &value);
    }
}

// One query head. Every part is relative to its own largest score: it is scaled to the largest of
// all, which is exact for a single part (its share is 1).
static void merge_parts(const PartSums& parts, int64_t head_dim, float* out) {
    float most = parts.most[0];
    for (int64_t p = 1; p < parts.count; ++p)
        most = parts.most[p * parts.stride] > most ? parts.most[p * parts.stride] : most;
    float total = 0.0f;
    std::memset(out, 0, static_cast<size_t>(head_dim) * 4);
    for (int64_t p = 0; p < parts.count; ++p) {
        const float share = exp_below(parts.most[p * parts.stride] - most);
        total += share * parts.sum[p * parts.stride];
        const Vec weight = Vec::all(share);
        const float* values = parts.out + p * parts.stride;
        for (int64_t j = 0; j < head_dim; j += 8) {
            Vec sum = Vec::load(out + j);
            sum.add_product(weight, Vec::load(values + j));
            sum.store(out + j);
        }
    }
    const float inverse = 1.0f / total;
    for (int64_t j = 0; j < head_dim; ++j) out[j] *= inverse;
}
