// Reductions over a warp and over a block, in a fixed order; all threads get the result.
#pragma once

#include "attention_variants/ops/cuda/kernels/rows/device.h"

namespace lra::ops::cuda {

struct Sum {
  static constexpr float kNothing = 0;
  static __device__ __forceinline__ float of(float a, float b) { return a + b; }
};
struct Max {
  static constexpr float kNothing = -INFINITY;
  static __device__ __forceinline__ float of(float a, float b) { return fmaxf(a, b); }
};

/// Over groups of `lanes` (a power of two) neighbouring lanes of a warp.
template <class Op, int lanes = kWarp>
__device__ __forceinline__ float warp_reduce(float x) {
#pragma unroll
  for (int apart = lanes / 2; apart > 0; apart /= 2)
    x = Op::of(x, __shfl_xor_sync(kAllLanes, x, apart));
  return x;
}
template <int lanes = kWarp>
__device__ __forceinline__ float warp_sum(float x) {
  return warp_reduce<Sum, lanes>(x);
}
template <int lanes = kWarp>
__device__ __forceinline__ float warp_max(float x) {
  return warp_reduce<Max, lanes>(x);
}

/// Over a block whose threads are `number` 0 to `threads` - 1; scratch [kWarp] in shared memory,
/// free for other use on return.
template <class Op>
__device__ __forceinline__ float block_reduce(float x, int number, int threads, float* scratch) {
  x = warp_reduce<Op>(x);
  if (number % kWarp == 0) scratch[number / kWarp] = x;
  __syncthreads();
  const int lane = number % kWarp;
  x = warp_reduce<Op>(lane < threads / kWarp ? scratch[lane] : Op::kNothing);
  __syncthreads();
  return x;
}

}  // namespace lra::ops::cuda
