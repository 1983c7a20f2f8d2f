// The AMX variant: as AVX512-VNNI, and tiles of bytes for many tokens, as Sapphire Rapids has them.
#include <immintrin.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "grid_tables.h"
#include "kernels.h"

namespace lamina {
namespace amx {

#define LAMINA_TILES
#define LAMINA_NAME "amx"
#include "unpack.h"
#include "vec_avx2.h"
#include "lanes_avx512.h"

#include "core.h"

}  // namespace amx

extern const Variant* const kAmx;
const Variant* const kAmx = &amx::kVariant;

}  // namespace lamina
