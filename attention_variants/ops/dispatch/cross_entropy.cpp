#include "attention_variants/ops/cross_entropy.h"

#include "attention_variants/ops/cpu/operators.h"
#include "attention_variants/ops/cuda/operators.h"
#include "attention_variants/ops/dispatch/recorded.h"
#include "attention_variants/ops/reference/operators.h"

namespace lra::ops {
namespace {

constexpr Implementation<CrossEntropyCall> kCrossEntropy[] = {
    {cuda::takes, cuda::run}, {cpu::takes, cpu::run}, {nullptr, reference::run}};

}  // namespace

CrossEntropy cross_entropy(Kernels asked, const torch::Tensor& logits, const torch::Tensor& labels,
                           int64_t count) {
  const torch::NoGradGuard no_grad;
  return run_recorded("lra::cross_entropy", kCrossEntropy, asked, Place::of(logits),
                      {.rows = logits.size(0), .classes = logits.size(1)},
                      {.logits = logits, .labels = labels, .count = count});
}

}  // namespace lra::ops
