// Hashing and sorting of lsh_attention.h.
#include <algorithm>
#include <numeric>

#include "attention_variants/ops/cpu/kernels/gemm/gemm.h"
#include "attention_variants/ops/cpu/kernels/heads/lsh_attention.h"
#include "attention_variants/ops/cpu/kernels/rows/arena.h"

namespace lra::ops::cpu::LRA_ISA {
namespace {

constexpr int64_t kHashed = LshSortScratch::kHashed;

// bucket [count] += stride times the argmax of [rotated; -rotated], rotated [half,count]. Scratch
// of 2 count.
void add_argmax(const float* rotated, int64_t half, int64_t count, int32_t stride, float* high,
                float* low, int32_t* high_at, int32_t* low_at, int32_t* bucket) {
  for (int64_t t = 0; t < count; ++t) {
    high[t] = low[t] = rotated[t];
    high_at[t] = low_at[t] = 0;
  }
  for (int64_t j = 1; j < half; ++j) {
    const float* row = rotated + j * count;
    const auto at = static_cast<int32_t>(j);
    for (int64_t t = 0; t < count; ++t) {
      const float x = row[t];
      high_at[t] = x > high[t] ? at : high_at[t];
      high[t] = x > high[t] ? x : high[t];
      low_at[t] = x < low[t] ? at : low_at[t];
      low[t] = x < low[t] ? x : low[t];
    }
  }
  const auto second = static_cast<int32_t>(half);
  for (int64_t t = 0; t < count; ++t)
    bucket[t] += stride * (high[t] >= -low[t] ? high_at[t] : low_at[t] + second);
}

// Buckets of all positions in one round; those of padding mean nothing.
void hash(const LshShape& shape, ConstMatrix x, const LshBuckets& buckets, int64_t round,
          const LshSortScratch& scratch) {
  const int64_t width = buckets.rotation_width();
  const float* table = buckets.rotations + round * width * shape.depth;
  const auto [bucket, next, rotated, high, low] = scratch;
  int32_t high_at[kHashed], low_at[kHashed];
  for (int64_t begin = 0; begin < shape.length; begin += kHashed) {
    const int64_t count = std::min(kHashed, shape.length - begin);
    gemm_nt(width, count, shape.depth, {table, shape.depth}, x.from(begin), {rotated, count});
    std::fill(bucket + begin, bucket + begin + count, 0);
    const float* part = rotated;
    int32_t stride = 1;
    for (const int64_t factor : buckets.factors) {
      add_argmax(part, factor / 2, count, stride, high, low, high_at, low_at, bucket + begin);
      part += factor / 2 * count;
      stride *= static_cast<int32_t>(factor);
    }
  }
}

}  // namespace

void lsh_sort(const LshShape& shape, const LshInputs& in, const LshBuckets& buckets, int32_t* order,
              const Team& team) {
  team.for_each(shape.rounds, [&](int64_t round, Arena& own) {
    const GemmPrecisionScope exact(GemmPrecision::float32);
    const LshSortScratch scratch(shape, buckets, own);
    int32_t *const bucket = scratch.bucket, *const next = scratch.next,
                   *const next_end = next + buckets.count() + 1;
    std::fill(bucket, bucket + shape.length, 0);
    if (!buckets.factors.empty()) hash(shape, in.x, buckets, round, scratch);
    std::fill(next, next_end, 0);
    for (int64_t i = 0; i < shape.length; ++i) {
      if (in.mask[i]) ++next[bucket[i] + 1];
    }
    std::partial_sum(next, next_end, next);  // where each bucket begins
    int32_t* to = order + round * shape.places();
    std::fill(to + next_end[-1], to + shape.places(), -1);
    for (int64_t i = 0; i < shape.length; ++i) {
      if (!in.mask[i]) continue;
      to[next[bucket[i]]++] = static_cast<int32_t>(i);
    }
  });
}

}  // namespace lra::ops::cpu::LRA_ISA
