// The sparse index: keys of whole blocks of positions, and the blocks that a query likes best.
//
// Memory stays bounded: the scores of as many tokens as fit into kScratchFloats lie side by side.
// A score depends on its query and its block alone, so neither these groups nor the tasks within
// one can be seen in a result.
#include "index.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "kernels.h"
#include "rotation.h"
#include "thread_pool.h"

namespace lamina {
namespace {

constexpr int64_t kScratchFloats = 1 << 20;  // 4 MiB; a single token may need more
constexpr int64_t kTaskBlocks = 256;         // keys of one task: 128 KiB at 128 dimensions
constexpr int64_t kTaskTokens = 8;           // queries that share a loaded key

// A block whose last position lies in this step.
struct Finished {
    int32_t first;        // position of its first token
    int64_t destination;  // row of the pool
};

// Adds up the step's raw keys in order of position, in `partial`; the sum of a block that is
// finished is copied to the end of `sums`.
std::vector<Finished> add_up(const IndexKeys& k, std::vector<float>& sums) {
    std::vector<Finished> finished;
    const int32_t ratio = static_cast<int32_t>(k.ratio);
    for (int64_t span = 0; span < k.spans; ++span) {
        float* sum = k.partial + k.slots[span] * k.dim;
        for (int64_t t = k.offsets[span]; t < k.offsets[span + 1]; ++t) {
            const float* raw = k.raw + t * k.dim;
            const int32_t position = k.positions[t], block = position / ratio;
            if (position % ratio == 0) {
                std::copy(raw, raw + k.dim, sum);
            } else {
                for (int64_t j = 0; j < k.dim; ++j) sum[j] += raw[j];
            }
            if ((position + 1) % ratio != 0) continue;
            const int64_t page = k.page_table[k.sequence[t] * k.pages_max + block / k.page_blocks];
            finished.push_back({block * ratio, page * k.page_blocks + block % k.page_blocks});
            sums.insert(sums.end(), sum, sum + k.dim);
        }
    }
    return finished;
}

int64_t complete_blocks(const BlockQueries& b, int64_t t) { return (b.positions[t] + 1) / b.ratio; }

// Neighbouring tokens of one sequence, and the blocks that the furthest of them sees.
struct Run {
    int64_t first, count, blocks;
};

// Tokens first .. last - 1 as runs, without those that see too few blocks to choose.
std::vector<Run> runs_of(const BlockQueries& b, int64_t first, int64_t last) {
    std::vector<Run> runs;
    for (int64_t t = first; t < last; ++t) {
        const int64_t blocks = complete_blocks(b, t);
        if (blocks <= b.best) continue;
        Run* run = runs.empty() ? nullptr : &runs.back();
        if (run != nullptr && run->count < kTaskTokens && run->first + run->count == t &&
            b.sequence[run->first] == b.sequence[t]) {
            ++run->count;
            run->blocks = std::max(run->blocks, blocks);
        } else {
            runs.push_back({t, 1, blocks});
        }
    }
    return runs;
}

// scores[t - first][m] for the tokens of all runs, in tasks of one run and kTaskBlocks blocks.
void score(const BlockQueries& b, const std::vector<Run>& runs, int64_t first, int64_t width,
           float* scores) {
    struct Part {
        const Run* run;
        int64_t block;
    };
    std::vector<Part> parts;
    for (const Run& run : runs)
        for (int64_t m = 0; m < run.blocks; m += kTaskBlocks) parts.push_back({&run, m});
    const Variant& v = variant();
    parallel_for(static_cast<int64_t>(parts.size()), [&](int64_t task) {
        const Run& run = *parts[static_cast<size_t>(task)].run;
        const int64_t block = parts[static_cast<size_t>(task)].block;
        const int64_t count = std::min(kTaskBlocks, run.blocks - block);
        const int32_t* pages = b.page_table + b.sequence[run.first] * b.pages_max;
        int64_t offsets[kTaskBlocks];
        for (int64_t i = 0; i < count; ++i) {
            const int64_t m = block + i;
            offsets[i] = (pages[m / b.page_blocks] * b.page_blocks + m % b.page_blocks) * b.dim;
        }
        v.score_blocks({b.q + run.first * b.heads * b.dim, b.pool, offsets, run.count, count,
                        b.heads, b.dim, width, b.half, scores + (run.first - first) * width + block});
    });
}

// Ranks of different blocks differ, and the better block has the higher one: the score's bits, which
// order as numbers do because no score is negative, then the lower index. NaN is below everything.
uint64_t rank(float score, int64_t block) {
    uint32_t bits;
    std::memcpy(&bits, &score, 4);
    const uint64_t high = score != score ? 0 : static_cast<uint64_t>(bits) + 1;
    return high << 32 | (0xffffffffu - static_cast<uint32_t>(block));
}

// The `best` blocks of the highest rank, ascending.
void choose(const float* scores, int64_t blocks, int64_t best, int32_t* out) {
    static thread_local std::vector<uint64_t> ranks;
    ranks.resize(static_cast<size_t>(blocks));
    for (int64_t m = 0; m < blocks; ++m) ranks[static_cast<size_t>(m)] = rank(scores[m], m);
    const auto last = ranks.begin() + (best - 1);
    std::nth_element(ranks.begin(), last, ranks.end(), std::greater<uint64_t>());
    const uint64_t least = *last;
    for (int64_t m = 0; m < blocks; ++m)
        if (rank(scores[m], m) >= least) *out++ = static_cast<int32_t>(m);
}

// Every block a token sees, then -1.
void take_all(int64_t blocks, int64_t best, int32_t* out) {
    for (int64_t m = 0; m < best; ++m) out[m] = m < blocks ? static_cast<int32_t>(m) : -1;
}

}  // namespace

void pool_index_keys(const IndexKeys& k) {
    const Variant& v = variant();
    std::vector<float> sums;
    const std::vector<Finished> finished = add_up(k, sums);
    parallel_for(static_cast<int64_t>(finished.size()), [&](int64_t task) {
        const Finished& block = finished[static_cast<size_t>(task)];
        float* key = &sums[static_cast<size_t>(task * k.dim)];
        for (int64_t j = 0; j < k.dim; ++j) key[j] /= static_cast<float>(k.ratio);
        v.rms_norm(key, k.weight, k.eps, k.dim, key);
        Rotation(block.first, k.inv_freq, k.pairs).turn(key, true);
        const int64_t at = block.destination * k.dim;
        if (k.half) {
            v.to_half(key, k.dim, static_cast<uint16_t*>(k.pool) + at);
        } else {
            std::copy(key, key + k.dim, static_cast<float*>(k.pool) + at);
        }
    });
}

void select_blocks(const BlockQueries& b) {
    for (int64_t first = 0, last = 0; first < b.tokens; first = last) {
        int64_t width = complete_blocks(b, last++);
        for (; last < b.tokens; ++last) {
            const int64_t wider = std::max(width, complete_blocks(b, last));
            if (wider * (last + 1 - first) > kScratchFloats) break;
            width = wider;
        }
        const std::vector<Run> runs = runs_of(b, first, last);
        const int64_t room = runs.empty() ? 0 : width * (last - first);
        const std::unique_ptr<float[]> scores(new float[static_cast<size_t>(room)]);
        score(b, runs, first, width, scores.get());
        parallel_for(last - first, [&](int64_t i) {
            const int64_t blocks = complete_blocks(b, first + i);
            int32_t* out = b.blocks + (first + i) * b.best;
            if (blocks <= b.best) {
                take_all(blocks, b.best, out);
            } else {
                choose(scores.get() + i * width, blocks, b.best, out);
            }
        });
    }
}

}  // namespace lamina
