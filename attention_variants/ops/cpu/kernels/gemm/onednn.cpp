#include "attention_variants/ops/cpu/kernels/gemm/onednn.h"

#include <vector>

#include "attention_variants/torch.h"

#if defined(__x86_64__)
#include <ATen/native/CPUBlas.h>
#endif

namespace lra::ops::cpu::onednn {

#if defined(CPUBLAS_BRGEMM_BF16BF16F32)

bool multiplies_bfloat16() {
  static const bool does = [] {
    const std::vector<at::BFloat16> a(32 * 32), b(32 * 32);
    std::vector<float> c(32 * 32);
    try {
      at::native::cpublas::brgemm(32, 32, 32, 32, 32, 32, /*add_C=*/false, a.data(), b.data(),
                                  c.data());
    } catch (const c10::Error&) {
      return false;
    }
    release();
    return true;
  }();
  return does;
}

bool has_tiles() { return at::native::cpublas::could_pack(at::kBFloat16); }

void multiply_bfloat16(int64_t m, int64_t n, int64_t k, ConstMatrix a, ConstMatrix b, Matrix c) {
  at::native::cpublas::brgemm(m, n, k, 2 * a.stride, b.stride, c.stride, /*add_C=*/false,
                              reinterpret_cast<const at::BFloat16*>(a.data),
                              reinterpret_cast<const at::BFloat16*>(b.data), c.data);
}

void release() { at::native::cpublas::brgemm_release(); }

#else

bool multiplies_bfloat16() { return false; }
bool has_tiles() { return false; }
void multiply_bfloat16(int64_t, int64_t, int64_t, ConstMatrix, ConstMatrix, Matrix) {}
void release() {}

#endif

}  // namespace lra::ops::cpu::onednn
