// Which variant runs, and the sizes of the block formats.
#include <cstring>
#include <atomic>

#include "kernels.h"

namespace lamina {

extern const Variant* const kPortable;
#ifdef LAMINA_X86
extern const Variant* const kAvx2;
#endif

// The variants this machine can run, best last.
const Variant* const* variants(int* count) {
    static const Variant* list[2];
    static const int num = [] {
        int n = 0;
        list[n++] = kPortable;
#ifdef LAMINA_X86
        if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
            __builtin_cpu_supports("f16c")) {
            list[n++] = kAvx2;
        }
#endif
        return n;
    }();
    *count = num;
    return list;
}

static std::atomic<const Variant*> chosen{nullptr};

const Variant& variant() {
    const Variant* v = chosen.load(std::memory_order_acquire);
    if (v == nullptr) {
        int count;
        const Variant* const* list = variants(&count);
        v = list[count - 1];
        chosen.store(v, std::memory_order_release);
    }
    return *v;
}

bool set_variant(const char* name) {
    int count;
    const Variant* const* list = variants(&count);
    for (int i = 0; i < count; ++i) {
        if (std::strcmp(list[i]->name, name) == 0) {
            chosen.store(list[i], std::memory_order_release);
            return true;
        }
    }
    return false;
}

struct Layout {
    int type;
    int elements;
    int bytes;
};

static const Layout kLayouts[] = {
    {F32, 1, 4},         {F16, 1, 2},         {BF16, 1, 2},        {Q4_0, 32, 18},
    {Q4_1, 32, 20},      {Q5_0, 32, 22},      {Q5_1, 32, 24},      {Q8_0, 32, 34},
    {Q2_K, 256, 84},     {Q3_K, 256, 110},    {Q4_K, 256, 144},    {Q5_K, 256, 176},
    {Q6_K, 256, 210},    {IQ2_XXS, 256, 66},  {IQ2_XS, 256, 74},   {IQ2_S, 256, 82},
    {IQ3_XXS, 256, 98},  {IQ3_S, 256, 110},   {IQ1_S, 256, 50},    {IQ1_M, 256, 56},
    {IQ4_NL, 32, 18},    {IQ4_XS, 256, 136},  {MXFP4, 32, 17},     {Q1_0, 128, 18},
    {Q2_0, 64, 18},      {NVFP4, 64, 36},    {TQ1_0, 256, 54},
    {TQ2_0, 256, 66},
};

static const Layout* layout(int type) {
    for (const Layout& l : kLayouts)
        if (l.type == type) return &l;
    return nullptr;
}

bool has_type(int type) { return layout(type) != nullptr; }

int64_t block_elements(int type) { return layout(type)->elements; }

size_t row_bytes(int type, int64_t cols) {
    const Layout* l = layout(type);
    return static_cast<size_t>(cols / l->elements * l->bytes);
}

}  // namespace lamina
