// Rows of a table that are named by number.
#pragma once

#include <cstdint>

#include "attention_variants/torch.h"

namespace lra::ops::cpu {

/// Throws c10::Error unless all of `indices` (int64) are from 0 to count - 1; `what` names them.
inline void expect_indices(const torch::Tensor& indices, int64_t count, const char* what) {
  if (indices.numel() == 0) return;
  const auto [least, most] = indices.aminmax();
  TORCH_CHECK(least.item<int64_t>() >= 0 && most.item<int64_t>() < count, what,
              " should be from 0 to ", count - 1, ", not ", least.item<int64_t>(), " to ",
              most.item<int64_t>());
}

}  // namespace lra::ops::cpu
