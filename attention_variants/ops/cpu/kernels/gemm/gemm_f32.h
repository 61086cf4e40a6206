// Products of small float32 matrices by sums in registers, where LibTorch's BLAS is slower at them:
// MKL, but for AVX2 on processors of Intel's. On two cores of an AMD EPYC (Zen 4, AVX-512), tiles
// of 32 to 256 rows by 64: MKL 51 to 126 GFLOP/s, these 147 to 195; on one of an Intel Xeon with
// AVX-512: 88 to 128, and 105 to 144 (`lra_bench --benchmark_filter=^Product`).
#pragma once

#include <vector>

#include "attention_variants/ops/cpu/kernels/gemm/gemm.h"

namespace lra::ops::cpu {

enum class GemmBackend : int {
  blas,  // LibTorch's
  avx2,  // with FMA
  avx512,
};

/// "blas", "avx2", "avx512"
const char* name_of(GemmBackend backend);

/// Those that the processor runs, by the chosen instruction set (kernels.h) or a lower one, BLAS
/// first.
std::vector<GemmBackend> gemm_backends();

/// The one that gemm() takes: the last of those where LibTorch's BLAS is MKL, unless that is AVX2
/// and the processor Intel's; elsewhere BLAS. Which it is depends on the processor, LRA_CPU_ISA and
/// LibTorch alone, so that a resumed run repeats itself.
GemmBackend gemm_backend();

/// c = op(a) op(b) as gemm() and its like say, in float32, by one of gemm_backends(). But for
/// BLAS, each element is the same to the bit in any tile of c: it is added up in order, 256 terms
/// at a time.
void gemm_f32(GemmBackend backend, Transposed transposed, int64_t m, int64_t n, int64_t k,
              ConstMatrix a, ConstMatrix b, Matrix c, GemmScale scale);

}  // namespace lra::ops::cpu
