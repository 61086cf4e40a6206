// What an operator works in belongs to tensors, which LibTorch's allocator counts: beside them, and
// the small objects that LibTorch keeps about tensors and functions, it may take next to nothing of
// the heap.
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <new>
#include <string>
#include <vector>

#include "attention_variants/ops/block_sparse_attention.h"
#include "attention_variants/ops/cpu/heads.h"
#include "attention_variants/ops/embedding.h"
#include "attention_variants/ops/feed_forward.h"
#include "attention_variants/ops/landmark_attention.h"
#include "attention_variants/ops/layer_norm.h"
#include "attention_variants/ops/linear.h"
#include "attention_variants/ops/linear_attention.h"
#include "attention_variants/ops/lsh_attention.h"
#include "attention_variants/ops/project_length.h"
#include "attention_variants/ops/softmax_attention.h"

namespace {

constexpr size_t kSmallBlock = 1024;  // smaller ones are LibTorch's

std::atomic<bool> g_counts_heap = false;
std::atomic<int64_t> g_heap_live = 0, g_heap_peak = 0;

void* heap_new(size_t bytes, size_t alignment) {
  void* const block =
      alignment <= alignof(std::max_align_t)
          ? std::malloc(bytes == 0 ? 1 : bytes)
          : std::aligned_alloc(alignment, (bytes + alignment) / alignment * alignment);
  if (block == nullptr) throw std::bad_alloc();
  if (const size_t size = malloc_usable_size(block); g_counts_heap && size >= kSmallBlock) {
    const int64_t live = g_heap_live += static_cast<int64_t>(size);
    int64_t peak = g_heap_peak;
    while (live > peak && !g_heap_peak.compare_exchange_weak(peak, live)) {
    }
  }
  return block;
}

void heap_delete(void* block) {
  if (const size_t size = malloc_usable_size(block); g_counts_heap && size >= kSmallBlock)
    g_heap_live -= static_cast<int64_t>(size);
  std::free(block);
}

}  // namespace

// Those of arrays and of sizes call these. Those without exceptions do so too, but not where a
// sanitizer has its own.
void* operator new(size_t bytes) { return heap_new(bytes, 1); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  return heap_new(bytes, static_cast<size_t>(alignment));
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return heap_new(bytes, 1);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void operator delete(void* block) noexcept { heap_delete(block); }
void operator delete(void* block, const std::nothrow_t&) noexcept { heap_delete(block); }
void operator delete(void* block, size_t) noexcept { heap_delete(block); }
void operator delete(void* block, std::align_val_t) noexcept { heap_delete(block); }
void operator delete(void* block, size_t, std::align_val_t) noexcept { heap_delete(block); }

namespace lra::heap {
namespace {

constexpr int64_t kMostHeapBytes = 4096;
constexpr int64_t kBatch = 2, kHeads = 2, kLength = 600, kHeadDim = 32, kWidth = kHeads * kHeadDim;

// The most bytes of operator new in blocks that are not small that live at once while `work` runs,
// without what lived before.
int64_t peak_heap_bytes(const std::function<void()>& work) {
  g_heap_live = g_heap_peak = 0;
  g_counts_heap = true;
  work();
  g_counts_heap = false;
  return g_heap_peak;
}

struct HeapCase {
  std::string name;
  std::function<torch::Tensor(const std::vector<torch::Tensor>&)> run;
  std::vector<torch::Tensor> leaves;
};

void expect_no_heap(const std::vector<HeapCase>& cases) {
  for (const HeapCase& of : cases) {
    for (const torch::Tensor& leaf : of.leaves) leaf.requires_grad_();
    torch::Tensor out;
    std::vector<torch::Tensor> gradients;
    const auto forward = [&] { out = of.run(of.leaves); };
    const auto backward = [&] {
      gradients = torch::autograd::grad({out}, of.leaves, {out.detach()});
    };
    forward();  // what is kept for good
    backward();
    gradients.clear();
    out.reset();
    EXPECT_LT(peak_heap_bytes(forward), kMostHeapBytes) << of.name << ", forward";
    EXPECT_LT(peak_heap_bytes(backward), kMostHeapBytes) << of.name << ", backward";
  }
}

torch::Tensor heads() { return torch::randn({kBatch, kHeads, kLength, kHeadDim}); }
torch::Tensor rows() { return torch::randn({kBatch, kLength, kWidth}); }
torch::Tensor matrix(int64_t out, int64_t in) { return torch::randn({out, in}); }
// Padding at the end of one sample and within the other.
torch::Tensor padded() {
  torch::Tensor mask = torch::ones({kBatch, kLength}, torch::kBool);
  mask[0].slice(0, 500).fill_(false);
  mask[1].slice(0, 100, 110).fill_(false);
  return mask;
}

ops::Patterns whole_pattern() {
  ops::SparsityPattern pattern;
  for (int64_t begin = 0; begin < kLength; begin += 64) {
    pattern.tiles.push_back({.queries = {begin, std::min(begin + 64, kLength)},
                             .keys = {{0, kLength}},
                             .unbounded = 1});
  }
  return {pattern};
}

using Leaves = std::vector<torch::Tensor>;

std::vector<HeapCase> attention_operators() {
  const torch::Tensor mask = padded(), rotations = torch::randn({kHeads, 2, 8, kHeadDim}),
                      features = torch::randn({48, kHeadDim});
  return {{"softmax",
           [=](const Leaves& x) {
             return ops::softmax_attention(Kernels::fused,
                                           {.q = x[0], .k = x[1], .v = x[2], .keys = mask});
           },
           {heads(), heads(), heads()}},
          {"linear",
           [=](const Leaves& x) {
             return ops::linear_attention(
                 Kernels::fused, {.q = x[0],
                                  .k = x[1],
                                  .v = x[2],
                                  .mask = mask,
                                  .table = features,
                                  .options = {.map = ops::FeatureMap::softmax, .norm = 0.1}});
           },
           {heads(), heads(), heads()}},
          {"landmark",
           [=](const Leaves& x) {
             return ops::landmark_attention(Kernels::fused, {.q = x[0],
                                                             .k = x[1],
                                                             .v = x[2],
                                                             .mask = mask,
                                                             .conv_weight = x[3],
                                                             .options = {.landmarks = 32}});
           },
           {heads(), heads(), heads(), torch::randn({kHeads, 33})}},
          {"lsh",
           [=](const Leaves& x) {
             return ops::lsh_attention(
                 Kernels::fused,
                 {.x = x[0],
                  .v = x[1],
                  .mask = mask,
                  .rotations = rotations,
                  .options = {.rounds = 2, .chunk = 32, .before = 1, .bucket_factors = {16}}});
           },
           {heads(), heads()}},
          {"block sparse",
           [=](const Leaves& x) {
             return ops::block_sparse_attention(
                 Kernels::fused,
                 {.q = x[0], .k = x[1], .v = x[2], .mask = mask, .patterns = whole_pattern});
           },
           {heads(), heads(), heads()}},
          {"length projection",
           [=](const Leaves& x) {
             return ops::project_length(Kernels::fused, {.x = x[0], .table = x[1], .mask = mask});
           },
           {heads(), matrix(64, kLength)}}};
}

std::vector<HeapCase> row_operators() {
  const torch::Tensor mask = padded(), ids = torch::randint(0, 16, {kBatch, kLength});
  return {{"linear",
           [=](const Leaves& x) {
             return ops::masked_linear(Kernels::fused, x[0], {x[1], x[2]}, mask);
           },
           {rows(), matrix(kWidth, kWidth), torch::randn({kWidth})}},
          {"linear of a norm",
           [=](const Leaves& x) {
             const ops::RowNorm norm{x[1], x[2]};
             return ops::linear(Kernels::fused, x[0], &norm, {{x[3], x[4]}}, mask).y[0];
           },
           {rows(), torch::randn({kWidth}), torch::randn({kWidth}), matrix(3 * kWidth, kWidth),
            torch::randn({3 * kWidth})}},
          {"layer norm",
           [=](const Leaves& x) {
             return ops::layer_norm(Kernels::fused, x[0], {x[1], x[2]}, mask);
           },
           {rows(), torch::randn({kWidth}), torch::randn({kWidth})}},
          {"mean of a layer norm",
           [=](const Leaves& x) {
             return ops::layer_norm_mean(Kernels::fused, x[0], {x[1], x[2]}, mask);
           },
           {rows(), torch::randn({kWidth}), torch::randn({kWidth})}},
          {"feed-forward",
           [=](const Leaves& x) {
             return ops::feed_forward(Kernels::fused, x[0],
                                      {.norm_weight = x[1],
                                       .norm_bias = x[2],
                                       .in_weight = x[3],
                                       .in_bias = x[4],
                                       .out_weight = x[5],
                                       .out_bias = x[6]},
                                      0.1, /*training=*/true, mask);
           },
           {rows(), torch::randn({kWidth}), torch::randn({kWidth}), matrix(2 * kWidth, kWidth),
            torch::randn({2 * kWidth}), matrix(kWidth, 2 * kWidth), torch::randn({kWidth})}},
          {"added projection",
           [=](const Leaves& x) {
             return ops::add_projected(Kernels::fused, x[0], x[1], {x[2], x[3]}, 0.1,
                                       /*training=*/true, mask);
           },
           {rows(), rows(), matrix(kWidth, kWidth), torch::randn({kWidth})}},
          {"embedding",
           [=](const Leaves& x) {
             return ops::embed(Kernels::fused, ids, {.tokens = x[0], .positions = x[1]}, 0.1,
                               /*training=*/true, mask);
           },
           {matrix(16, kWidth), matrix(kLength, kWidth)}}};
}

TEST(Heap, OperatorsOverHeadsWorkInTensors) { expect_no_heap(attention_operators()); }

TEST(Heap, OperatorsOverRowsWorkInTensors) { expect_no_heap(row_operators()); }

TEST(Heap, AVectorInAWorkerIsSeen) {
  const int64_t bytes = peak_heap_bytes([] {
    // One line for the number, and one that a sanitizer's red zone takes.
    ops::cpu::parallel_for_items(3, 2 * 64, [](int64_t item, ops::cpu::Arena& arena) {
      std::vector<float> planted(2048, static_cast<float>(item));
      *arena.take(1) = planted.back();
    });
  });
  EXPECT_GE(bytes, 2048 * static_cast<int64_t>(sizeof(float)));
}

}  // namespace
}  // namespace lra::heap
