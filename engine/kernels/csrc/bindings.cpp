// The Python module `engine.kernels._native`: the only file that knows nanobind.
//
// Arrays cross as addresses and sizes. engine/kernels/ops has checked shape, dtype, layout and lifetime; handing
// over DLPack capsules instead costs several microseconds per tensor, a tenth of a small op.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#ifdef __linux__
#include <malloc.h>
#endif

#include <cstring>
#include <vector>

#include "index.h"
#include "kernels.h"
#include "linear.h"
#include "program.h"
#include "recurrent.h"
#include "rotation.h"
#include "row_reader.h"
#include "streams.h"
#include "thread_pool.h"

namespace nb = nanobind;
using namespace lamina;
using Address = uintptr_t;
// data, type, rows, cols, experts, bytes from one expert to the next
using MatrixTuple = std::tuple<Address, int, int64_t, int64_t, int64_t, size_t>;

namespace {

template <typename T>
T* at(Address a) {
    return reinterpret_cast<T*>(a);
}

Matrix matrix(const MatrixTuple& m) {
    const auto [data, type, rows, cols, experts, expert_stride] = m;
    return {at<const uint8_t>(data), type, rows, cols, experts, expert_stride};
}

void embed(Address ids, int64_t tokens, const MatrixTuple& table, Address out) {
    const Matrix w = matrix(table);
    const size_t stride = row_bytes(w.type, w.cols);
    parallel_for(tokens, [&](int64_t t) {
        const size_t row = static_cast<size_t>(at<const int64_t>(ids)[t]);
        variant().expand(w.type, w.data + row * stride, w.cols, at<float>(out) + t * w.cols);
    });
}

// Rotates the first 2 * half dimensions of every head in place.
void rope(Address x, Address positions, Address inv_freq, int64_t tokens, int64_t heads,
          int64_t head_dim, int64_t half, bool neox) {
    parallel_for(tokens, [&](int64_t t) {
        const Rotation rotation(at<const int32_t>(positions)[t], at<const double>(inv_freq), half);
        for (int64_t h = 0; h < heads; ++h) {
            rotation.turn(at<float>(x) + (t * heads + h) * head_dim, neox);
        }
    });
}

void swiglu(Address gate, Address up, int64_t rows, int64_t width, Address out) {
    parallel_for(rows, [&](int64_t r) {
        variant().swiglu(at<const float>(gate) + r * width, at<const float>(up) + r * width, width,
                         at<float>(out) + r * width);
    });
}

// The k best of each row, best first, ties to the lower index; softmax over the whole row.
void topk(Address logits, int64_t tokens, int64_t experts, int64_t k, bool normalise, Address ids,
          Address weights) {
    parallel_for(tokens, [&](int64_t t) {
        const float* row = at<const float>(logits) + t * experts;
        std::vector<float> p(row, row + experts);
        variant().softmax(p.data(), experts);
        int32_t* id = at<int32_t>(ids) + t * k;
        float* weight = at<float>(weights) + t * k;
        int64_t found = 0;  // the best so far, in order
        for (int64_t e = 0; e < experts; ++e) {
            if (found == k && !(row[e] > row[id[k - 1]])) continue;
            int64_t place = found < k ? found++ : k - 1;
            for (; place > 0 && row[e] > row[id[place - 1]]; --place) id[place] = id[place - 1];
            id[place] = static_cast<int32_t>(e);
        }
        float sum = 0.0f;
        for (int64_t i = 0; i < k; ++i) {
            weight[i] = p[static_cast<size_t>(id[i])];
            sum += weight[i];
        }
        if (normalise) {
            for (int64_t i = 0; i < k; ++i) weight[i] /= sum;
        }
    });
}

void store_row(const float* row, int64_t width, Address pool, bool half, int64_t offset) {
    if (half) {
        variant().to_half(row, width, at<uint16_t>(pool) + offset);
    } else {
        std::copy(row, row + width, at<float>(pool) + offset);
    }
}

void store_kv(Address source, Address pool, bool half, Address slots, int64_t tokens, int64_t width) {
    for (int64_t t = 0; t < tokens; ++t) {
        store_row(at<const float>(source) + t * width, width, pool, half, at<const int64_t>(slots)[t] * width);
    }
}

// Per token and head: normed and turned queries, gates, and keys and values in their place.
void attention_inputs(Address both, Address k, Address v, Address q_weight, Address k_weight, float eps,
                      Address inv_freq, Address positions, Address slots, Address k_pool, Address v_pool, bool half,
                      Address q, Address gate, const std::vector<int64_t>& sizes) {
    const int64_t tokens = sizes[0], heads = sizes[1], kv_heads = sizes[2], dim = sizes[3], pairs = sizes[4];
    const size_t head_bytes = static_cast<size_t>(dim) * sizeof(float);
    const Variant& variant_now = variant();
    parallel_for(tokens, [&](int64_t t) {
        const Rotation rotation(at<const int32_t>(positions)[t], at<const double>(inv_freq), pairs);
        for (int64_t h = 0; h < heads; ++h) {
            const float* source = at<const float>(both) + (t * heads + h) * 2 * dim;
            float* head = at<float>(q) + (t * heads + h) * dim;
            variant_now.rms_norm(source, at<const float>(q_weight), eps, dim, head);
            rotation.turn(head, true);
            std::memcpy(at<float>(gate) + (t * heads + h) * dim, source + dim, head_bytes);
        }
        float key[kHeadDimMax];
        for (int64_t h = 0; h < kv_heads; ++h) {
            const int64_t from = (t * kv_heads + h) * dim, to = (at<const int64_t>(slots)[t] * kv_heads + h) * dim;
            variant_now.rms_norm(at<const float>(k) + from, at<const float>(k_weight), eps, dim, key);
            rotation.turn(key, true);
            store_row(key, dim, k_pool, half, to);
            store_row(at<const float>(v) + from, dim, v_pool, half, to);
        }
    });
}

void attend(Address q, Address out, Address k_pool, Address v_pool, bool half, Address page_table,
            Address sequence, Address positions, Address blocks, const std::vector<int64_t>& sizes,
            float scale) {
    attention({at<const float>(q), at<float>(out), at<const void>(k_pool), at<const void>(v_pool),
               at<const int32_t>(page_table), at<const int32_t>(sequence),
               at<const int32_t>(positions), at<const int32_t>(blocks), sizes[0], sizes[1], sizes[2],
               sizes[3], sizes[4], sizes[5], sizes[6], sizes[7], scale, half});
}

void index_keys(Address raw, Address weight, float eps, Address inv_freq, Address pool, bool half,
                Address partial, Address page_table, Address sequence, Address positions,
                Address offsets, Address slots, const std::vector<int64_t>& sizes) {
    pool_index_keys({at<const float>(raw), at<const float>(weight), at<const double>(inv_freq),
                     at<void>(pool), at<float>(partial), at<const int32_t>(page_table),
                     at<const int32_t>(sequence), at<const int32_t>(positions),
                     at<const int32_t>(offsets), at<const int32_t>(slots), sizes[0], sizes[1],
                     sizes[2], sizes[3], sizes[4], sizes[5], eps, half});
}

void best_blocks(Address q, Address pool, bool half, Address page_table, Address sequence,
                 Address positions, const std::vector<int64_t>& sizes, Address blocks) {
    select_blocks({at<const float>(q), at<const void>(pool), at<const int32_t>(page_table),
                   at<const int32_t>(sequence), at<const int32_t>(positions), at<int32_t>(blocks),
                   sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5], sizes[6], half});
}

void dequantize(const MatrixTuple& m, Address out) {
    const Matrix w = matrix(m);
    const size_t stride = row_bytes(w.type, w.cols);
    parallel_for(w.rows * w.experts, [&](int64_t r) {
        const uint8_t* expert = w.data + static_cast<size_t>(r / w.rows) * w.expert_stride;
        variant().expand(w.type, expert + static_cast<size_t>(r % w.rows) * stride, w.cols,
                         at<float>(out) + r * w.cols);
    });
}

// Memory that was freed stays with the process: a prompt's activations are tens of megabytes to an op,
// and fresh pages for them cost more than many an op.
void keep_freed_memory() {
#ifdef __GLIBC__
    constexpr int kLargest = 1 << 30;
    mallopt(M_MMAP_THRESHOLD, kLargest);
    mallopt(M_TRIM_THRESHOLD, kLargest);
#endif
}

std::vector<std::string> variant_names() {
    int count;
    const Variant* const* list = variants(&count);
    std::vector<std::string> names;
    for (int i = 0; i < count; ++i) names.emplace_back(list[i]->name);
    return names;
}

}  // namespace

NB_MODULE(_native, m) {
    using Release = nb::call_guard<nb::gil_scoped_release>;
    m.def("has_type", &has_type, nb::arg("type"));
    m.def("variants", &variant_names);
    m.def("variant", [] { return std::string(variant().name); });
    m.def("set_variant", [](const std::string& name) { return set_variant(name.c_str()); },
          nb::arg("name"));
    m.def("keep_freed_memory", &keep_freed_memory);
    m.def("num_threads", &num_threads);
    m.def("set_num_threads", &set_num_threads, nb::arg("count"), Release());
    m.def("linear",
          recordable([](Address x, int64_t tokens, const MatrixTuple& w, int levels, Address y) {
              const Product product{matrix(w), at<float>(y)};
              linears(Arena::begin(), at<const float>(x), tokens, &product, 1, levels);
          }),
          nb::arg("x"), nb::arg("tokens"), nb::arg("w"), nb::arg("levels"), nb::arg("y"), Release());
    m.def("linears",
          recordable([](Address x, int64_t tokens, const std::vector<MatrixTuple>& ws, int levels, const std::vector<Address>& ys) {
              std::vector<Product> products;
              for (size_t i = 0; i < ws.size(); ++i) products.push_back({matrix(ws[i]), at<float>(ys[i])});
              linears(Arena::begin(), at<const float>(x), tokens, products.data(),
                      static_cast<int64_t>(products.size()), levels);
          }),
          nb::arg("x"), nb::arg("tokens"), nb::arg("ws"), nb::arg("levels"), nb::arg("ys"), Release());
    m.def("gated_ffn",
          recordable([](Address x, int64_t tokens, const MatrixTuple& gate, const MatrixTuple& up, const MatrixTuple& down,
             const MatrixTuple& share, int levels, Address y) {
              gated_ffn({at<const float>(x), tokens, matrix(gate), matrix(up), matrix(down), matrix(share), levels,
                         at<float>(y)});
          }),
          nb::arg("x"), nb::arg("tokens"), nb::arg("gate"), nb::arg("up"), nb::arg("down"), nb::arg("share"),
          nb::arg("levels"), nb::arg("y"), Release());
    m.def("expert_ffn",
          recordable([](Address x, int64_t tokens, int64_t k, const MatrixTuple& gate, const MatrixTuple& up,
             const MatrixTuple& down, Address ids, Address weights, int levels, Address y, Address counts) {
              expert_ffn(at<const float>(x), tokens, k, matrix(gate), matrix(up), matrix(down),
                         at<const int32_t>(ids), at<const float>(weights), levels, at<float>(y), at<int32_t>(counts));
          }),
          nb::arg("x"), nb::arg("tokens"), nb::arg("k"), nb::arg("gate"), nb::arg("up"),
          nb::arg("down"), nb::arg("ids"), nb::arg("weights"), nb::arg("levels"), nb::arg("y"),
          nb::arg("counts"), Release());
    m.def("embedding", recordable(&embed), nb::arg("ids"), nb::arg("tokens"), nb::arg("table"), nb::arg("out"),
          Release());
    m.def("rms_norm",
          recordable([](Address x, Address weight, float eps, int64_t rows, int64_t dim, int64_t groups, Address out) {
              rms_norm(at<const float>(x), at<const float>(weight), eps, rows, dim, groups, at<float>(out));
          }),
          nb::arg("x"), nb::arg("weight"), nb::arg("eps"), nb::arg("rows"), nb::arg("dim"), nb::arg("groups"),
          nb::arg("out"), Release());
    m.def("gated_norm",
          recordable([](Address x, Address weight, float eps, Address gate, int64_t rows, int64_t dim, Address out) {
              gated_norm(at<const float>(x), at<const float>(weight), eps, at<const float>(gate), rows, dim,
                         at<float>(out));
          }),
          nb::arg("x"), nb::arg("weight"), nb::arg("eps"), nb::arg("gate"), nb::arg("rows"), nb::arg("dim"),
          nb::arg("out"), Release());
    m.def("rope", recordable(&rope), nb::arg("x"), nb::arg("positions"), nb::arg("inv_freq"), nb::arg("tokens"),
          nb::arg("heads"), nb::arg("head_dim"), nb::arg("half"), nb::arg("neox"), Release());
    m.def("swiglu", recordable(&swiglu), nb::arg("gate"), nb::arg("up"), nb::arg("rows"), nb::arg("width"),
          nb::arg("out"), Release());
    m.def("router_topk", recordable(&topk), nb::arg("logits"), nb::arg("tokens"), nb::arg("experts"),
          nb::arg("k"), nb::arg("normalise"), nb::arg("ids"), nb::arg("weights"), Release());
    m.def("store_kv", recordable(&store_kv), nb::arg("source"), nb::arg("pool"), nb::arg("half"),
          nb::arg("slots"), nb::arg("tokens"), nb::arg("width"), Release());
    m.def("attention_inputs", recordable(&attention_inputs), nb::arg("both"), nb::arg("k"), nb::arg("v"),
          nb::arg("q_weight"), nb::arg("k_weight"), nb::arg("eps"), nb::arg("inv_freq"), nb::arg("positions"),
          nb::arg("slots"), nb::arg("k_pool"), nb::arg("v_pool"), nb::arg("half"), nb::arg("q"), nb::arg("gate"),
          nb::arg("sizes"), Release());
    m.def("attention", recordable(&attend), nb::arg("q"), nb::arg("out"), nb::arg("k_pool"), nb::arg("v_pool"),
          nb::arg("half"), nb::arg("page_table"), nb::arg("sequence"), nb::arg("positions"),
          nb::arg("blocks"), nb::arg("sizes"), nb::arg("scale"), Release());
    m.def("pool_index_keys", recordable(&index_keys), nb::arg("raw"), nb::arg("weight"), nb::arg("eps"),
          nb::arg("inv_freq"), nb::arg("pool"), nb::arg("half"), nb::arg("partial"),
          nb::arg("page_table"), nb::arg("sequence"), nb::arg("positions"), nb::arg("offsets"),
          nb::arg("slots"), nb::arg("sizes"), Release());
    m.def("select_blocks", recordable(&best_blocks), nb::arg("q"), nb::arg("pool"), nb::arg("half"),
          nb::arg("page_table"), nb::arg("sequence"), nb::arg("positions"), nb::arg("sizes"),
          nb::arg("blocks"), Release());
    m.def("sigmoid_gate",
          recordable([](Address x, Address gate, int64_t count) {
              sigmoid_gate(at<float>(x), at<const float>(gate), count);
          }),
          nb::arg("x"), nb::arg("gate"), nb::arg("count"), Release());
    m.def("mix_streams",
          recordable([](Address h, Address norm, float eps, const MatrixTuple& down, const MatrixTuple& up,
             const std::vector<MatrixTuple>& inject, int levels, int64_t tokens, int64_t streams, int64_t dim,
             Address x, Address logits) {
              const Matrix last = inject.empty() ? Matrix{} : matrix(inject[0]);
              mix_streams({at<const float>(h), at<const float>(norm), eps, matrix(down), matrix(up),
                           inject.empty() ? nullptr : &last, levels, tokens, streams, dim, at<float>(x),
                           at<float>(logits)});
          }),
          nb::arg("h"), nb::arg("norm"), nb::arg("eps"), nb::arg("down"), nb::arg("up"), nb::arg("inject"),
          nb::arg("levels"), nb::arg("tokens"), nb::arg("streams"), nb::arg("dim"), nb::arg("x"), nb::arg("logits"),
          Release());
    m.def("gated_add",
          recordable([](Address acc, Address y, Address logits, int64_t tokens, int64_t streams, int64_t dim,
             float scale, float gain) {
              gated_add(at<float>(acc), at<const float>(y), at<const float>(logits), tokens, streams,
                        dim, scale, gain);
          }),
          nb::arg("acc"), nb::arg("y"), nb::arg("logits"), nb::arg("tokens"), nb::arg("streams"),
          nb::arg("dim"), nb::arg("scale"), nb::arg("gain"), Release());
    m.def("ngram_gates",
          recordable([](Address keys, Address queries, int64_t rows, int64_t dim, Address out) {
              ngram_gates(at<const float>(keys), at<const float>(queries), rows, dim, at<float>(out));
          }),
          nb::arg("keys"), nb::arg("queries"), nb::arg("rows"), nb::arg("dim"), nb::arg("out"),
          Release());
    m.def("causal_conv",
          recordable([](Address x, Address kernel, Address state, Address out, Address offsets, Address slots,
             const std::vector<int64_t>& sizes) {
              causal_conv({at<const float>(x), at<const float>(kernel), at<float>(state), at<float>(out),
                           {at<const int32_t>(offsets), at<const int32_t>(slots), sizes[0]},
                           sizes[1], sizes[2], sizes[3]});
          }),
          nb::arg("x"), nb::arg("kernel"), nb::arg("state"), nb::arg("out"), nb::arg("offsets"),
          nb::arg("slots"), nb::arg("sizes"), Release());
    m.def("delta_rule",
          recordable([](Address qkv, Address beta, Address alpha, Address decay, Address dt_bias, Address state,
             Address out, Address offsets, Address slots, const std::vector<int64_t>& sizes) {
              delta_rule({at<const float>(qkv), at<const float>(beta), at<const float>(alpha),
                          at<const float>(decay), at<const float>(dt_bias), at<float>(state),
                          at<float>(out),
                          {at<const int32_t>(offsets), at<const int32_t>(slots), sizes[0]},
                          sizes[1], sizes[2], sizes[3], sizes[4], sizes[5]});
          }),
          nb::arg("qkv"), nb::arg("beta"), nb::arg("alpha"), nb::arg("decay"), nb::arg("dt_bias"),
          nb::arg("state"), nb::arg("out"), nb::arg("offsets"), nb::arg("slots"), nb::arg("sizes"),
          Release());
    nb::class_<Program>(m, "Program").def(nb::init<>());
    m.def("record", [](Program& program) { recording = &program; }, nb::arg("program"));
    m.def("stop_recording", [] { recording = nullptr; });
    m.def("run_program", [](const Program& program) { program.run(); }, nb::arg("program"), Release());
    m.def("read_rows",
          [](int fd, Address offsets, int64_t count, int64_t row_bytes, Address out) {
              const ReadFailure failure =
                  read_rows(fd, at<const int64_t>(offsets), count, row_bytes, at<uint8_t>(out));
              return std::make_tuple(failure.row, failure.number);
          },
          nb::arg("fd"), nb::arg("offsets"), nb::arg("count"), nb::arg("row_bytes"), nb::arg("out"),
          Release());
    m.def("dequantize", recordable(&dequantize), nb::arg("w"), nb::arg("out"), Release());
}
