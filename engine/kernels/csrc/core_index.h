// Scores of the sparse index, in one instruction-set variant. Included by core.h.

// score(t, m) = sum over heads, in their order, of max(0, q[t][h] . key[m]). NaN stays NaN.
static void score_blocks(const ScoreTask& task) {
    alignas(32) float buffer[kHeadDimMax];
    for (int64_t m = 0; m < task.count; ++m) {
        const float* key = pool_row(task.pool, task.half, task.offsets[m], task.dim, buffer);
        for (int64_t t = 0; t < task.tokens; ++t) {
            float score = 0.0f;
            dot_heads(task.q + t * task.heads * task.dim, task.heads, key, task.dim,
                      [&](int64_t, float dot) { score += dot < 0.0f ? 0.0f : dot; });
            task.scores[t * task.stride + m] = score;
        }
    }
}
