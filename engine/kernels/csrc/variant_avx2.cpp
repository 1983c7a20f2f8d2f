// The AVX2 variant: AVX2, FMA and F16C. Pairs of products are added in 16 bits, which hold them: codes of
// at most 128 meet activations of at most 127.
#include <immintrin.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "grid_tables.h"
#include "kernels.h"

namespace lamina {
namespace avx2 {

#define LAMINA_NAME "avx2"
#include "unpack.h"
#include "vec_avx2.h"
#include "lanes_avx2.h"

constexpr bool kSignedCodes = true;

// Codes around 128 become signed: their magnitudes meet activations that take over the signs.
template <>
struct Codes<true> {
    Vector v, magnitudes;
    explicit Codes(Vector codes) : v(_mm256_xor_si256(codes, _mm256_set1_epi8(-128))), magnitudes(_mm256_abs_epi8(v)) {}
};

struct Products {
    static Vector add(Vector sum, const Codes<false>& w, Vector x) { return add(sum, w.v, x); }
    static Vector add(Vector sum, const Codes<true>& w, Vector x) {
        return add(sum, w.magnitudes, _mm256_sign_epi8(x, w.v));
    }

private:
    static Vector add(Vector sum, Vector weights, Vector x) {
        const Vector pairs = _mm256_maddubs_epi16(weights, x);
        return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
    }
};
using Ints = EightInts<Products>;

#include "core.h"

}  // namespace avx2

extern const Variant* const kAvx2;
const Variant* const kAvx2 = &avx2::kVariant;

}  // namespace lamina
