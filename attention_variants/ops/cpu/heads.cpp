#include "attention_variants/ops/cpu/heads.h"

#include <algorithm>
#include <deque>

#include "attention_variants/ops/cpu/kernels/gemm/gemm_scratch.h"
#include "attention_variants/ops/cpu/parallel.h"

namespace lra::ops::cpu {

ConstMatrix head_rows(const torch::Tensor& x, int64_t b, int64_t h) {
  return {x.const_data_ptr<float>() + b * x.stride(0) + h * x.stride(1), x.stride(2)};
}

Matrix mutable_head_rows(const torch::Tensor& x, int64_t b, int64_t h) {
  return {x.mutable_data_ptr<float>() + b * x.stride(0) + h * x.stride(1), x.stride(2)};
}

InnerPadding holes_of(const torch::Tensor& mask) {
  for (int64_t b = 0; mask.numel() > 0 && b < mask.size(0); ++b) {
    const bool *row = mask.const_data_ptr<bool>() + b * mask.size(1), *end = row + mask.size(1);
    if (std::find(std::find(row, end, false), end, true) != end) return InnerPadding::yes;
  }
  return InnerPadding::no;
}

SoftmaxStats softmax_stats(const torch::Tensor& x, int64_t head) {
  const int64_t length = x.size(-1);
  float* const max = x.mutable_data_ptr<float>() + 2 * head * length;
  return {.max = max, .inverse_sum = max + length};
}

void parallel_for_items(int64_t count, int64_t bytes,
                        const std::function<void(int64_t item, Arena& arena)>& body) {
  const int64_t threads = threads_for(count);
  const torch::Tensor memory = torch::empty({threads, bytes}, torch::kByte);
  auto* const first = reinterpret_cast<std::byte*>(memory.data_ptr());
  std::deque<Arena> arenas;  // does not move them
  for (int64_t t = 0; t < threads; ++t) arenas.emplace_back(first + t * bytes, bytes);
  parallel_for_dynamic(count, [&](int64_t item, int64_t thread) {
    Arena& arena = arenas[static_cast<size_t>(thread)];
    const Arena::Frame frame(arena);
    body(item, arena);
  });
}

int64_t scratch_bytes(int64_t count, int64_t bytes) {
  return threads_for(count) * (bytes + gemm_scratch_bytes(GemmPrecision::float32));
}

}  // namespace lra::ops::cpu
