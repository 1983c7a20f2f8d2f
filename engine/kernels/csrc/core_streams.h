// Gates over rows of activations. Included by core.h. Elementwise, so the order of work cannot be
// seen in a result; sums over streams run in their order.

static inline float sigmoid(float x) { return 1.0f / (1.0f + exp_near(-x)); }

// Below -87 the gate is shut; exp_near stops there and would leave it ajar. Zero times x rather than
// zero: what a shut gate lets through of -inf is NaN. The gate is computed either way, so that a
// select, not a branch, is all that the loops over silu hold.
static inline float silu_of(float x) {
    const float gate = sigmoid(x);
    return x * (x < -87.0f ? 0.0f : gate);
}

static void scaled_silu(const float* x, float scale, int64_t count, float* out) {
    for (int64_t j = 0; j < count; ++j) out[j] = silu_of(x[j] * scale);
}

static void sigmoid_gate(float* x, const float* gate, int64_t count) {
    for (int64_t j = 0; j < count; ++j) x[j] *= sigmoid(gate[j]);
}

static void gated_mean(const float* x, const float* gates, int64_t streams, int64_t stride,
                       int64_t count, float* out) {
    for (int64_t j = 0; j < count; ++j) out[j] = 0.0f;
    for (int64_t c = 0; c < streams; ++c) {
        const float* values = x + c * stride;
        const float* logits = gates + c * stride;
        for (int64_t j = 0; j < count; ++j) out[j] += sigmoid(logits[j]) * values[j];
    }
    const float share = 1.0f / static_cast<float>(streams);
    for (int64_t j = 0; j < count; ++j) out[j] *= share;
}

static void add_scaled(float weight, const float* y, int64_t count, float* acc) {
    for (int64_t j = 0; j < count; ++j) acc[j] += weight * y[j];
}

// Like dot_plain, for any count.
static float dot_any(const float* a, const float* b, int64_t count) {
    const int64_t whole = count / 8 * 8;
    alignas(32) float part[8] = {};
    Vec sum = Vec::zero();
    for (int64_t j = 0; j < whole; j += 8) sum.add_product(Vec::load(a + j), Vec::load(b + j));
    sum.store(part);
    for (int64_t j = whole; j < count; ++j) part[j - whole] += a[j] * b[j];
    return lanes(part);
}
