// How operators that compute a tile of rows at a time share them out.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#include "attention_variants/ops/cpu/kernels/rows/row_ops.h"
#include "attention_variants/torch.h"

namespace lra::ops::cpu {

/// Rows a tile: with 128 columns 128 KiB, which stay in a core's cache from one step to the next.
inline constexpr int64_t kRowTile = 256;

/// Parts that parallel_for_row_tiles() makes of the rows: one a thread of LibTorch, at most one a
/// tile.
int64_t row_tile_workers(int64_t rows);

/// Calls body(part, begin, rows of the tile) for every tile of [0, rows), or blank(begin, rows)
/// where `mask` [rows] (null: all true) is false throughout. The tiles of a part run one after the
/// other on one thread, and are the same for the same number of threads.
void parallel_for_row_tiles(
    int64_t rows, const bool* mask,
    const std::function<void(int64_t part, int64_t begin, int64_t rows)>& body,
    const std::function<void(int64_t begin, int64_t rows)>& blank);

/// A blank() that writes zeros, to [rows,width].
inline auto zero_skipped_rows(float* to, int64_t width) {
  return [=](int64_t begin, int64_t rows) {
    std::memset(to + begin * width, 0, static_cast<size_t>(rows * width) * sizeof(float));
  };
}

/// Of a mask that may be undefined (all true): what autograd can keep, and the mask that it is of.
inline torch::Tensor kept_mask(const torch::Tensor& mask) {
  return mask.defined() ? mask.contiguous() : torch::empty({0}, torch::kBool);
}
inline const bool* mask_data(const torch::Tensor& kept) {
  return kept.numel() == 0 ? nullptr : kept.const_data_ptr<bool>();
}

/// The sums of every part, a std::vector<float> that `member` finds in it, added up in the order of
/// the parts, as a contiguous tensor like `like`.
template <class Part, class Member>
torch::Tensor sum_over_workers(const std::vector<Part>& parts, Member member,
                               const torch::Tensor& like) {
  torch::Tensor total = torch::zeros_like(like, at::MemoryFormat::Contiguous);
  float* to = total.mutable_data_ptr<float>();
  for (const Part& part : parts) add(to, std::invoke(member, part).data(), total.numel(), to);
  return total;
}

}  // namespace lra::ops::cpu
