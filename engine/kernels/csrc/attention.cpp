// Attention of a step's tokens over the paged cache, one task per token and KV head.
#include <vector>

#include "kernels.h"
#include "thread_pool.h"

namespace lamina {

void attention(const AttentionBatch& b) {
    const Variant& v = variant();
    const int64_t group = b.heads / b.kv_heads;
    parallel_for(b.tokens * b.kv_heads, [&](int64_t task) {
        const int64_t t = task / b.kv_heads, kv_head = task % b.kv_heads;
        static thread_local std::vector<float> scratch;
        const int64_t positions = b.positions[t] + 1;
        scratch.resize(static_cast<size_t>(positions * group));
        const int64_t first_head = (t * b.heads + kv_head * group) * b.head_dim;
        v.attention({b.q + first_head, b.out + first_head, b.k_pool, b.v_pool,
                     b.page_table + b.sequence[t] * b.pages_max, positions, b.page_tokens,
                     b.kv_heads * b.head_dim, kv_head * b.head_dim, b.head_dim, group, b.scale,
                     b.half, scratch.data()});
    });
}

}  // namespace lamina
