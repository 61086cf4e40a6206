#include "attention_variants/ops/lsh_attention.h"

#include <numeric>

#include "attention_variants/ops/cpu/operators.h"
#include "attention_variants/ops/cuda/operators.h"
#include "attention_variants/ops/dispatch/recorded.h"
#include "attention_variants/ops/reference/operators.h"

namespace lra::ops {
namespace {

constexpr Implementation<LshCall> kLshAttention[] = {{cuda::takes, cuda::run, nullptr},
                                                     {cpu::takes, cpu::run, cpu::bytes},
                                                     {nullptr, reference::run, reference::bytes}};

}  // namespace

torch::Tensor lsh_attention(Kernels asked, const LshCall& call) {
  return run_recorded("lra::lsh_attention", kLshAttention, asked, Place::of(call.x), call.shape(),
                      call);
}

int64_t lsh_attention_bytes(Kernels asked, const LshShape& shape) {
  return pick(kLshAttention, asked, Place::of_bytes(shape.element_size), shape).bytes(shape);
}

int64_t lsh_attention_flops(const LshShape& s) {
  const int64_t chunk = s.options.chunk,
                sorted = s.options.rounds * ((s.length + chunk - 1) / chunk) * chunk,
                window = chunk * (s.options.before + 1 + s.options.after);
  const std::vector<int64_t>& factors = s.options.bucket_factors;
  const int64_t rotations = std::accumulate(factors.begin(), factors.end(), int64_t{0}) / 2;
  return s.batch * s.heads * 2 * sorted * s.head_dim * (rotations + 2 * window);
}

}  // namespace lra::ops
