// Which variant runs, and the sizes of rows and tasks that follow.
#include <algorithm>
#include <atomic>
#include <cstring>

#ifdef LAMINA_X86
#include <cpuid.h>
#endif
#if defined(LAMINA_X86) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "kernels.h"
#include "thread_pool.h"

namespace lamina {

extern const Variant* const kPortable;
#ifdef LAMINA_X86
extern const Variant* const kAvx2;
extern const Variant* const kAvxVnni;
extern const Variant* const kAvx512Vnni;
extern const Variant* const kAmx;

namespace {

bool has_avx2() {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
}

// Bit `bit` of a register of CPUID leaf 7: what gcc 12 has no name for.
bool has_leaf7(unsigned subleaf, int reg, int bit) {
    unsigned r[4];
    if (!__get_cpuid_count(7, subleaf, &r[0], &r[1], &r[2], &r[3])) return false;
    return r[reg] >> bit & 1;
}

bool has_avx512() {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vnni");
}

// Whether the processor has tiles of bytes and the kernel lets this process, threads to come included,
// use their registers.
bool has_amx() {
    constexpr int kTile = 24, kInt8 = 25, kRequestPermission = 0x1023, kTileData = 18;
    if (!has_leaf7(0, 3, kTile) || !has_leaf7(0, 3, kInt8)) return false;
#if defined(__linux__)
    return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
    return false;
#endif
}

}  // namespace
#endif

// The variants this machine can run, best last.
const Variant* const* variants(int* count) {
    static const Variant* list[5];
    static const int num = [] {
        int n = 0;
        list[n++] = kPortable;
#ifdef LAMINA_X86
        if (has_avx2()) {
            list[n++] = kAvx2;
            if (has_leaf7(1, 0, 4)) list[n++] = kAvxVnni;
            if (has_avx512()) {
                list[n++] = kAvx512Vnni;
                if (has_amx()) list[n++] = kAmx;
            }
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

int64_t rows_of_task(int64_t rows) {
    const int64_t share = rows / (8 * num_threads());
    return std::clamp<int64_t>((share + 31) / 32 * 32, 32, 256);
}

}  // namespace lamina
