// Products of small matrices in cache, by the BLAS that LibTorch brings or by code of their own
// (gemm_f32.h). On one core of an Intel Xeon with AVX-512 they reach 105 to 144 GFLOP/s where MKL's
// large products reach 155 (`lra_bench --benchmark_filter=^Product`); so tiles of a few hundred
// rows lose little, and what is done to their elements in between costs no memory traffic.
#pragma once

#include <cstdint>

#include "attention_variants/ops/cpu/kernels/rows/matrix.h"

namespace lra::ops::cpu {

/// To what products round their operands. All add up in float32.
enum class GemmPrecision : int {
  float32,
  bfloat16,  // to the nearest, ties to even, by the instructions of a processor that has them
};

namespace detail {
extern constinit thread_local GemmPrecision products;  // of the products below on this thread
}

/// While it lives, products on its thread round their operands so.
class GemmPrecisionScope {
 public:
  LRA_INLINE explicit GemmPrecisionScope(GemmPrecision products) : before_(detail::products) {
    detail::products = products;
  }
  LRA_INLINE ~GemmPrecisionScope() { detail::products = before_; }
  GemmPrecisionScope(const GemmPrecisionScope&) = delete;
  GemmPrecisionScope& operator=(const GemmPrecisionScope&) = delete;

 private:
  GemmPrecision before_;
};

/// What products on this thread round their operands to.
LRA_INLINE GemmPrecision gemm_precision() { return detail::products; }

struct GemmScale {
  float product = 1;  // of the product
  float old = 0;      // of what c holds
};

/// Which operand of a product is given transposed.
enum class Transposed { none, a, b };

namespace detail {
void gemm(Transposed transposed, int64_t m, int64_t n, int64_t k, ConstMatrix a, ConstMatrix b,
          Matrix c, GemmScale scale);
}  // namespace detail

/// c [m,n] = a [m,k] b [k,n]. With scale.old 0, c is written, whatever it held.
LRA_INLINE void gemm(int64_t m, int64_t n, int64_t k, ConstMatrix a, ConstMatrix b, Matrix c,
                     GemmScale scale = {}) {
  detail::gemm(Transposed::none, m, n, k, a, b, c, scale);
}
/// c [m,n] = a [m,k] bᵀ, b [n,k].
LRA_INLINE void gemm_nt(int64_t m, int64_t n, int64_t k, ConstMatrix a, ConstMatrix b, Matrix c,
                        GemmScale scale = {}) {
  detail::gemm(Transposed::b, m, n, k, a, b, c, scale);
}
/// c [m,n] = aᵀ b, a [k,m], b [k,n].
LRA_INLINE void gemm_tn(int64_t m, int64_t n, int64_t k, ConstMatrix a, ConstMatrix b, Matrix c,
                        GemmScale scale = {}) {
  detail::gemm(Transposed::a, m, n, k, a, b, c, scale);
}

}  // namespace lra::ops::cpu
