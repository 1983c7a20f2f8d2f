// The AVX512 variant: F, BW, DQ, VL, VBMI and VNNI, as Ice Lake and Zen 4 have them.
#include <immintrin.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "grid_tables.h"
#include "kernels.h"

namespace lamina {
namespace avx512vnni {

#define LAMINA_NAME "avx512vnni"
#include "unpack.h"
#include "vec_avx2.h"
#include "lanes_avx512.h"

#include "core.h"

}  // namespace avx512vnni

extern const Variant* const kAvx512Vnni;
const Variant* const kAvx512Vnni = &avx512vnni::kVariant;

}  // namespace lamina
