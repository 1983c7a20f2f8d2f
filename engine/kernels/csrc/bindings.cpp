// The Python module `engine.kernels._native`: the only file that knows nanobind.
//
// Arrays cross as addresses and sizes. engine/kernels/ops has checked shape, dtype, layout and lifetime; handing
// over DLPack capsules instead costs several microseconds per tensor, a tenth of a small op.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <vector>

#include "kernels.h"
#include "thread_pool.h"

namespace nb = nanobind;
using namespace lamina;
using Address = uintptr_t;
using MatrixTuple = std::tuple<Address, int, int64_t, int64_t, int64_t>;  // data, type, rows, cols, experts

namespace {

template <typename T>
T* at(Address a) {
    return reinterpret_cast<T*>(a);
}

Matrix matrix(const MatrixTuple& m) {
    const auto [data, type, rows, cols, experts] = m;
    return {at<const uint8_t>(data), type, rows, cols, experts};
}

void embed(Address ids, int64_t tokens, const MatrixTuple& table, Address out) {
    const Matrix w = matrix(table);
    const size_t stride = row_bytes(w.type, w.cols);
    parallel_for(tokens, [&](int64_t t) {
        const size_t row = static_cast<size_t>(at<const int64_t>(ids)[t]);
        variant().expand(w.type, w.data + row * stride, w.cols, at<float>(out) + t * w.cols);
    });
}

void norm(Address x, Address weight, float eps, int64_t rows, int64_t dim, Address out) {
    parallel_for((rows + 15) / 16, [&](int64_t task) {
        for (int64_t r = task * 16; r < rows && r < (task + 1) * 16; ++r) {
            variant().rms_norm(at<const float>(x) + r * dim, at<const float>(weight), eps, dim,
                               at<float>(out) + r * dim);
        }
    });
}

// Rotates the first 2 * half dimensions of every head in place. Angles are computed in double: at
// position 262,143 a float32 product is off by more than 1e-2.
void rope(Address x, Address positions, Address inv_freq, int64_t tokens, int64_t heads,
          int64_t head_dim, int64_t half, bool neox) {
    parallel_for(tokens, [&](int64_t t) {
        std::vector<float> cosine(static_cast<size_t>(half)), sine(cosine.size());
        for (int64_t i = 0; i < half; ++i) {
            const double angle = static_cast<double>(at<const int32_t>(positions)[t]) *
                                 static_cast<double>(at<const double>(inv_freq)[i]);
            cosine[static_cast<size_t>(i)] = static_cast<float>(std::cos(angle));
            sine[static_cast<size_t>(i)] = static_cast<float>(std::sin(angle));
        }
        for (int64_t h = 0; h < heads; ++h) {
            float* v = at<float>(x) + (t * heads + h) * head_dim;
            for (int64_t i = 0; i < half; ++i) {
                float& a = neox ? v[i] : v[2 * i];
                float& b = neox ? v[i + half] : v[2 * i + 1];
                const float c = cosine[static_cast<size_t>(i)], s = sine[static_cast<size_t>(i)];
                const float rotated = a * c - b * s;
                b = a * s + b * c;
                a = rotated;
            }
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
        std::vector<bool> taken(static_cast<size_t>(experts));
        float sum = 0.0f;
        for (int64_t i = 0; i < k; ++i) {
            int64_t best = -1;
            for (int64_t e = 0; e < experts; ++e) {
                if (!taken[static_cast<size_t>(e)] && (best < 0 || row[e] > row[best])) best = e;
            }
            taken[static_cast<size_t>(best)] = true;
            id[i] = static_cast<int32_t>(best);
            weight[i] = p[static_cast<size_t>(best)];
            sum += weight[i];
        }
        if (normalise) {
            for (int64_t i = 0; i < k; ++i) weight[i] /= sum;
        }
    });
}

void store_kv(Address source, Address pool, bool half, Address slots, int64_t tokens, int64_t width) {
    for (int64_t t = 0; t < tokens; ++t) {
        const float* row = at<const float>(source) + t * width;
        const int64_t offset = at<const int64_t>(slots)[t] * width;
        if (half) {
            variant().to_half(row, width, at<uint16_t>(pool) + offset);
        } else {
            std::copy(row, row + width, at<float>(pool) + offset);
        }
    }
}

void attend(Address q, Address out, Address k_pool, Address v_pool, bool half, Address page_table,
            Address sequence, Address positions, const std::vector<int64_t>& sizes, float scale) {
    attention({at<const float>(q), at<float>(out), at<const void>(k_pool), at<const void>(v_pool),
               at<const int32_t>(page_table), at<const int32_t>(sequence),
               at<const int32_t>(positions), sizes[0], sizes[1], sizes[2], sizes[3], sizes[4],
               sizes[5], scale, half});
}

void dequantize(const MatrixTuple& m, Address out) {
    const Matrix w = matrix(m);
    const size_t stride = row_bytes(w.type, w.cols);
    parallel_for(w.rows * w.experts, [&](int64_t r) {
        variant().expand(w.type, w.data + static_cast<size_t>(r) * stride, w.cols,
                         at<float>(out) + r * w.cols);
    });
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
    m.def("num_threads", &num_threads);
    m.def("set_num_threads", &set_num_threads, nb::arg("count"), Release());
    m.def("linear",
          [](Address x, int64_t tokens, const MatrixTuple& w, bool int8, Address y) {
              linear(at<const float>(x), tokens, matrix(w), int8, at<float>(y));
          },
          nb::arg("x"), nb::arg("tokens"), nb::arg("w"), nb::arg("int8"), nb::arg("y"), Release());
    m.def("expert_ffn",
          [](Address x, int64_t tokens, int64_t k, const MatrixTuple& gate, const MatrixTuple& up,
             const MatrixTuple& down, Address ids, Address weights, bool int8, Address y) {
              expert_ffn(at<const float>(x), tokens, k, matrix(gate), matrix(up), matrix(down),
                         at<const int32_t>(ids), at<const float>(weights), int8, at<float>(y));
          },
          nb::arg("x"), nb::arg("tokens"), nb::arg("k"), nb::arg("gate"), nb::arg("up"),
          nb::arg("down"), nb::arg("ids"), nb::arg("weights"), nb::arg("int8"), nb::arg("y"),
          Release());
    m.def("embedding", &embed, nb::arg("ids"), nb::arg("tokens"), nb::arg("table"), nb::arg("out"),
          Release());
    m.def("rms_norm", &norm, nb::arg("x"), nb::arg("weight"), nb::arg("eps"), nb::arg("rows"),
          nb::arg("dim"), nb::arg("out"), Release());
    m.def("rope", &rope, nb::arg("x"), nb::arg("positions"), nb::arg("inv_freq"), nb::arg("tokens"),
          nb::arg("heads"), nb::arg("head_dim"), nb::arg("half"), nb::arg("neox"), Release());
    m.def("swiglu", &swiglu, nb::arg("gate"), nb::arg("up"), nb::arg("rows"), nb::arg("width"),
          nb::arg("out"), Release());
    m.def("router_topk", &topk, nb::arg("logits"), nb::arg("tokens"), nb::arg("experts"),
          nb::arg("k"), nb::arg("normalise"), nb::arg("ids"), nb::arg("weights"), Release());
    m.def("store_kv", &store_kv, nb::arg("source"), nb::arg("pool"), nb::arg("half"),
          nb::arg("slots"), nb::arg("tokens"), nb::arg("width"), Release());
    m.def("attention", &attend, nb::arg("q"), nb::arg("out"), nb::arg("k_pool"), nb::arg("v_pool"),
          nb::arg("half"), nb::arg("page_table"), nb::arg("sequence"), nb::arg("positions"),
          nb::arg("sizes"), nb::arg("scale"), Release());
    m.def("dequantize", &dequantize, nb::arg("w"), nb::arg("out"), Release());
}
