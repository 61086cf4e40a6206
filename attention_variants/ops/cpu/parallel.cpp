#include "attention_variants/ops/cpu/parallel.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>

#include "attention_variants/ops/cpu/flush_denormals.h"
#include "attention_variants/ops/cpu/kernels/gemm/gemm.h"
#include "attention_variants/ops/cpu/kernels/gemm/gemm_scratch.h"
#include "attention_variants/ops/cpu/kernels/gemm/serial_blas.h"
#include "attention_variants/torch.h"

namespace lra::ops::cpu {

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
