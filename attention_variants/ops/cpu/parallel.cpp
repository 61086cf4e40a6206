#include "attention_variants/ops/cpu/parallel.h"

#include <ATen/Parallel.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include <algorithm>
#include <atomic>

#include "attention_variants/ops/cpu/kernels/gemm/gemm.h"
#include "attention_variants/ops/cpu/kernels/gemm/gemm_scratch.h"
#include "attention_variants/ops/cpu/kernels/gemm/serial_blas.h"
#include "attention_variants/torch.h"

namespace lra::ops::cpu {
namespace {

// While it lives, the calling thread's arithmetic reads numbers below the smallest normal one
// (1.2e-38 in float32) as zero and returns zero for them, as bfloat16 products on AMX tiles always
// do. x86 processors take over a hundred cycles for an operation with one, and sharp attention has
// many: its steps otherwise take up to four times as long (docs/operators.md). Other processors
// have no such cost, and keep them.
class FlushDenormals {
 public:
#if defined(__x86_64__)
  FlushDenormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | kFlushToZero | kInputsAreZero); }
  ~FlushDenormals() { _mm_setcsr(before_); }
#else
  FlushDenormals() = default;
  ~FlushDenormals() {}
#endif
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
#if defined(__x86_64__)
  static constexpr unsigned kFlushToZero = 0x8000, kInputsAreZero = 0x0040;
  unsigned before_;
#endif
};

}  // namespace

int64_t threads_for(int64_t count) { return std::clamp<int64_t>(count, 1, at::get_num_threads()); }

void parallel_for_dynamic(int64_t count,
                          const std::function<void(int64_t item, int64_t thread)>& body) {
  const GemmPrecision products = detail::products;
  const int64_t threads = threads_for(count),
                together = std::clamp<int64_t>(count / (8 * threads), 1, 4);
  const int64_t gemm_bytes = gemm_scratch_bytes(products);
  const torch::Tensor gemm_memory = torch::empty({threads, gemm_bytes}, torch::kByte);
  std::byte* const first_scratch = reinterpret_cast<std::byte*>(gemm_memory.data_ptr());
  std::atomic<int64_t> next = 0;
  at::parallel_for(0, threads, 1, [&](int64_t first, int64_t last) {
    const SerialBlas serial;
    const FlushDenormals flush;
    const GemmPrecisionScope scope(products);
    for (int64_t thread = first; thread < last; ++thread) {
      Arena arena(first_scratch + thread * gemm_bytes, gemm_bytes);
      const GemmScratch gemm_scratch(arena);
      for (;;) {
        const int64_t begin = next.fetch_add(together);
        if (begin >= count) break;
        for (int64_t item = begin; item < std::min(begin + together, count); ++item)
          body(item, thread);
      }
    }
  });
}

}  // namespace lra::ops::cpu
