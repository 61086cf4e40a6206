#include "attention_variants/ops/cuda/heads.h"

#include <limits>

#include "attention_variants/ops/cuda/device_table.h"
#include "attention_variants/ops/heads.h"

namespace lra::ops::cuda {

torch::Tensor with_readable_rows(const torch::Tensor& x) {
  const torch::Tensor rows = with_contiguous_rows(x);
  return rows.stride(2) <= std::numeric_limits<int32_t>::max() / rows.size(2) ? rows : dense(rows);
}

Heads heads_of(const torch::Tensor& x) {
  return {x.const_data_ptr(), x.stride(0), x.stride(1), x.stride(2)};
}

MutableHeads mutable_heads_of(const torch::Tensor& x) {
  return {x.mutable_data_ptr(), x.stride(0), x.stride(1), x.stride(2)};
}

bool tiles_take(const Place& place, int64_t batch, int64_t heads, int64_t length,
                int64_t head_dim) {
  constexpr int64_t kMostItems = 65535, kMostWidth = 128,
                    kMostElements = std::numeric_limits<int32_t>::max();
  constexpr int64_t kNarrow = 64;  // of wider ones the gradients take the most shared memory
  const int64_t items = batch * heads;
  return has_kernels(place) && has_room(place, head_dim > kNarrow ? kMostSharedBytes : 0) &&
         items >= 1 && items <= kMostItems && length >= 1 && head_dim >= 1 &&
         head_dim <= kMostWidth && length <= kMostElements / kMostWidth / 2;
}

torch::Tensor empty_floats(const torch::Tensor& x, at::IntArrayRef sizes) {
  return torch::empty(sizes, x.options().dtype(torch::kFloat));
}

}  // namespace lra::ops::cuda
