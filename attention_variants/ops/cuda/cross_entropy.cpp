#include "attention_variants/ops/cross_entropy.h"
#include "attention_variants/ops/heads.h"

#include "attention_variants/ops/cuda/device_table.h"
#include "attention_variants/ops/cuda/operators.h"

namespace lra::ops::cuda {

bool takes(const Place& place, const CrossEntropyShape& shape) {
  return has_kernels(place) && place.type == torch::kFloat && shape.rows >= 1 &&
         shape.classes >= 1 && shape.rows * shape.classes <= kMostLogits;
}

CrossEntropy run(const CrossEntropyCall& call) {
  const torch::Tensor logits = dense(call.logits), labels = dense(call.labels);
  CrossEntropy result{.sums = torch::empty({2}, logits.options()),
                      .gradient = torch::empty_like(logits)};
  start(&KernelTable::cross_entropy, logits,
        CrossEntropyParams{.rows = static_cast<int>(logits.size(0)),
                           .classes = static_cast<int>(logits.size(1)),
                           .logits = data_of<float>(logits),
                           .labels = data_of<int64_t>(labels),
                           .share = 1.0F / static_cast<float>(call.count),
                           .sums = data_of<float>(result.sums),
                           .gradient = data_of<float>(result.gradient)});
  return result;
}

}  // namespace lra::ops::cuda
