// Attention of a step's tokens over the paged cache.
//
//   1. per token, KV head and part of its positions: scores and weighted sums   -> scratch
//   2. per token and query head: the sum of its parts, the first part first      -> out
//
// A part is kPartPositions neighbours in the list of positions that a token attends to, so where it
// ends depends on the token alone. Both loops run over as many tokens as fit into kScratchFloats.
#include <algorithm>
#include <memory>
#include <vector>

#include "kernels.h"
#include "thread_pool.h"

namespace lamina {
namespace {

constexpr int64_t kPartPositions = 512;
constexpr int64_t kScratchFloats = 1 << 20;  // 4 MiB; a single token may need more

// The positions one token attends to, ascending: those of its blocks, then a tail.
struct Seen {
    const int32_t* blocks;
    int32_t ratio;
    int32_t in_blocks;  // positions in blocks
    int32_t tail;       // first position of the tail
    int32_t count;      // positions in all

    int32_t position(int32_t i) const {
        return i < in_blocks ? blocks[i / ratio] * ratio + i % ratio : tail + (i - in_blocks);
    }
    int64_t num_parts() const { return (count + kPartPositions - 1) / kPartPositions; }
};

Seen seen_by(const AttentionBatch& b, int64_t t) {
    const int32_t end = b.positions[t] + 1;
    if (b.blocks == nullptr) return {nullptr, 1, 0, 0, end};
    const int32_t ratio = static_cast<int32_t>(b.ratio), tail = end / ratio * ratio;
    const int32_t* blocks = b.blocks + t * b.best;
    const int32_t* none = std::find_if(blocks, blocks + b.best, [](int32_t m) { return m < 0; });
    const int32_t in_blocks = static_cast<int32_t>(none - blocks) * ratio;
    return {blocks, ratio, in_blocks, tail, in_blocks + end - tail};
}

// Some tokens of the batch, and where the parts of each begin among all of theirs.
class Round {
public:
    // Takes tokens from `first` on until the scratch is full, at least one.
    Round(const AttentionBatch& b, int64_t first)
        : b_(b), first_(first), group_(b.heads / b.kv_heads), part_floats_(group_ * (b.head_dim + 2)) {
        starts_.push_back(0);
        for (int64_t t = first; t < b.tokens; ++t) {
            const Seen seen = seen_by(b, t);
            const int64_t parts = starts_.back() + seen.num_parts();
            if (t > first && parts * b.kv_heads * part_floats_ > kScratchFloats) break;
            seen_.push_back(seen);
            starts_.push_back(parts);
        }
        scratch_.reset(new float[static_cast<size_t>(starts_.back() * b.kv_heads * part_floats_)]);
    }

    int64_t tokens() const { return static_cast<int64_t>(seen_.size()); }

    void run() const {
        parallel_for(starts_.back() * b_.kv_heads, [&](int64_t task) {
            const auto after = std::upper_bound(starts_.begin(), starts_.end(), task / b_.kv_heads);
            const int64_t i = after - starts_.begin() - 1;
            attend(i, task / b_.kv_heads - starts_[static_cast<size_t>(i)], task % b_.kv_heads);
        });
        parallel_for(tokens() * b_.heads, [&](int64_t task) { merge(task / b_.heads, task % b_.heads); });
    }

private:
    // Sums, then largest scores, then sums of weights of one part.
    float* part_of(int64_t i, int64_t part, int64_t kv_head) const {
        return scratch_.get() + ((starts_[static_cast<size_t>(i)] + part) * b_.kv_heads + kv_head) * part_floats_;
    }

    void attend(int64_t i, int64_t part, int64_t kv_head) const {
        const Seen& seen = seen_[static_cast<size_t>(i)];
        const int64_t begin = part * kPartPositions, t = first_ + i;
        const int64_t count = std::min(kPartPositions, seen.count - begin);
        const int32_t* pages = b_.page_table + b_.sequence[t] * b_.pages_max;
        const int32_t page_tokens = static_cast<int32_t>(b_.page_tokens);
        int64_t offsets[kPartPositions];
        for (int64_t j = 0; j < count; ++j) {
            const int32_t position = seen.position(static_cast<int32_t>(begin + j));
            const int64_t slot = pages[position / page_tokens] * b_.page_tokens + position % page_tokens;
            offsets[j] = (slot * b_.kv_heads + kv_head) * b_.head_dim;
        }
        static thread_local std::vector<float> scores;
        scores.resize(static_cast<size_t>(group_ * kPartPositions));
        float* out = part_of(i, part, kv_head);
        float* most = out + group_ * b_.head_dim;
        variant().attend_part({b_.q + (t * b_.heads + kv_head * group_) * b_.head_dim, b_.k_pool,
                               b_.v_pool, offsets, count, b_.head_dim, group_, b_.scale, b_.half,
                               scores.data(), out, most, most + group_});
    }

    void merge(int64_t i, int64_t head) const {
        const float* out = part_of(i, 0, head / group_);
        const float* most = out + group_ * b_.head_dim + head % group_;
        variant().merge_parts({out + head % group_ * b_.head_dim, most, most + group_,
                               seen_[static_cast<size_t>(i)].num_parts(), b_.kv_heads * part_floats_},
                              b_.head_dim, b_.out + ((first_ + i) * b_.heads + head) * b_.head_dim);
    }

    const AttentionBatch& b_;
    const int64_t first_, group_, part_floats_;
    std::vector<Seen> seen_;
    std::vector<int64_t> starts_;  // (tokens + 1,)
    std::unique_ptr<float[]> scratch_;
};

}  // namespace

void attention(const AttentionBatch& b) {
    for (int64_t first = 0; first < b.tokens;) {
        const Round round(b, first);
        round.run();
        first += round.tokens();
    }
}

}  // namespace lamina
