#include "attention_variants/ops/cross_entropy.h"
#include "attention_variants/ops/heads.h"

#include <vector>

#include "attention_variants/ops/cpu/index_check.h"
#include "attention_variants/ops/cpu/kernels/rows/cross_entropy.h"
#include "attention_variants/ops/cpu/operators.h"
#include "attention_variants/ops/cpu/row_tiles.h"

namespace lra::ops::cpu {
namespace {

// With fewer, LibTorch's operators take no time that counts, and their bits are those of earlier
// runs.
constexpr int64_t kFewestClasses = 64;

}  // namespace

bool takes(const Place& place, const CrossEntropyShape& shape) {
  return is_cpu_float(place) && shape.rows >= 1 && shape.classes >= kFewestClasses;
}

CrossEntropy run(const CrossEntropyCall& call) {
  const torch::Tensor logits = dense(call.logits), labels = dense(call.labels);
  const int64_t rows = logits.size(0), classes = logits.size(1);
  expect_indices(labels, classes, "labels");
  const torch::Tensor gradient = torch::empty_like(logits);
  const float* from = logits.const_data_ptr<float>();
  const int64_t* label = labels.const_data_ptr<int64_t>();
  float* to = gradient.mutable_data_ptr<float>();
  const float share = 1.0F / static_cast<float>(call.count);
  std::vector<RowLoss> losses(static_cast<size_t>(rows));
  const auto tile = [&](int64_t, int64_t begin, int64_t count) {
    for (int64_t r = begin; r < begin + count; ++r) {
      losses[static_cast<size_t>(r)] =
          cross_entropy_row(from + r * classes, classes, label[r], share, to + r * classes);
    }
  };
  parallel_for_row_tiles(rows, nullptr, tile, [](int64_t, int64_t) {});
  double loss = 0, correct = 0;
  for (const RowLoss& row : losses) {
    loss += row.loss;
    correct += row.correct ? 1 : 0;
  }
  return {.sums = torch::tensor({loss, correct}, torch::kDouble), .gradient = gradient};
}

}  // namespace lra::ops::cpu
