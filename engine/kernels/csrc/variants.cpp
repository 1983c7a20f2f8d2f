// Which variant runs, and the sizes of rows that follow from its formats.
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

bool has_type(int type) { return variant().layout(type).elements != 0; }

size_t row_bytes(int type, int64_t cols) {
    const Layout l = variant().layout(type);
    return static_cast<size_t>(cols / l.elements * l.bytes);
}

}  // namespace lamina
