// The AVX-VNNI variant: AVX2 with four products of bytes to an instruction, as on desktop processors
// without AVX512.
#include <immintrin.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "grid_tables.h"
#include "kernels.h"

namespace lamina {
namespace avxvnni {

#define LAMINA_NAME "avxvnni"
#include "unpack.h"
#include "vec_avx2.h"
#include "lanes_avx2.h"

constexpr bool kSignedCodes = false;

struct Products {
    static Vector add(Vector sum, const Codes<false>& w, Vector x) { return _mm256_dpbusd_avx_epi32(sum, w.v, x); }
};
using Ints = EightInts<Products>;

#include "core.h"

}  // namespace avxvnni

extern const Variant* const kAvxVnni;
const Variant* const kAvxVnni = &avxvnni::kVariant;

}  // namespace lamina
