// Kernels with a fault each, and without it: what the emulator must catch.
#pragma once

#include "attention_variants/ops/cuda/kernels/rows/device.h"

namespace lra::emulator::faults {

using ops::cuda::block_shared;
using ops::cuda::kWarp;
using ops::cuda::Shared;

struct Params {
  const float* x = nullptr;  // [count]
  float* y = nullptr;        // [count]
  int count = 0;
  bool faulty = true;
};

/// The threads of a block in reverse, through shared memory; without the barrier, if faulty.
inline void missing_barrier(Params p) {
  auto* all = block_shared().take<float>(blockDim.x);
  const unsigned t = threadIdx.x, from = blockDim.x - 1 - t;
  all[t] = p.x[t];
  if (!p.faulty) __syncthreads();
  p.y[t] = all[from];
}

/// The same by a warp's barrier where the block has two warps.
inline void barrier_of_a_warp(Params p) {
  auto* all = block_shared().take<float>(blockDim.x);
  const unsigned t = threadIdx.x, from = blockDim.x - 1 - t;
  all[t] = p.x[t];
  if (p.faulty) {
    __syncwarp();
  } else {
    __syncthreads();
  }
  p.y[t] = all[from];
}

/// A barrier that the last warp does not reach.
inline void divergent_barrier(Params p) {
  if (p.faulty && threadIdx.x >= blockDim.x - kWarp) return;
  __syncthreads();
  p.y[threadIdx.x] = 1;
}

/// Two barriers, one for each half of the block.
inline void different_barriers(Params p) {
  if (p.faulty && threadIdx.x < blockDim.x / 2) {
    __syncthreads();
  } else {
    __syncthreads();
  }
  p.y[threadIdx.x] = 1;
}

/// A shuffle that lane 5 does not reach.
inline void divergent_shuffle(Params p) {
  if (p.faulty && threadIdx.x == 5) return;
  p.y[threadIdx.x] = __shfl_xor_sync(kFullWarp, p.x[threadIdx.x], 1);
}

/// Lanes that are in different shuffles at a time.
inline void different_shuffles(Params p) {
  float x = p.x[threadIdx.x];
  if (p.faulty && threadIdx.x % 2 == 1) {
    x = __shfl_xor_sync(kFullWarp, x, 1);
  } else {
    x = __shfl_xor_sync(kFullWarp, x, 1);
  }
  p.y[threadIdx.x] = x;
}

/// Writes one element past its part of shared memory.
inline void write_past_shared(Params p) {
  Shared shared = block_shared();
  auto* own = shared.take<float>(blockDim.x);
  shared.take<float>(blockDim.x);
  own[threadIdx.x + (p.faulty ? 1 : 0)] = 1;
  p.y[threadIdx.x] = 1;
}

/// Reads one element past it.
inline void read_past_shared(Params p) {
  auto* own = block_shared().take<float>(blockDim.x);
  own[threadIdx.x] = 1;
  __syncthreads();
  p.y[threadIdx.x] = own[threadIdx.x + (p.faulty ? 1 : 0)];
}

/// Writes one element past an array in global memory, or reads there.
inline void write_past_array(Params p) { p.y[threadIdx.x + (p.faulty ? 1 : 0)] = 1; }
inline void read_past_array(Params p) { p.y[threadIdx.x] = p.x[threadIdx.x + (p.faulty ? 1 : 0)]; }

/// A maximum over shared memory of which the last element was never written.
inline void unwritten_shared(Params p) {
  auto* all = block_shared().take<float>(blockDim.x);
  if (!p.faulty || threadIdx.x + 1 < blockDim.x) all[threadIdx.x] = p.x[threadIdx.x];
  __syncthreads();
  float most = -INFINITY;
  for (unsigned t = 0; t < blockDim.x; ++t) most = fmaxf(most, all[t]);
  p.y[threadIdx.x] = most;
}

/// More shared memory than the launch gives.
inline void too_much_shared(Params p) {
  p.y[threadIdx.x] = block_shared().take<float>(blockDim.x + (p.faulty ? 1 : 0)) == nullptr;
}

/// Threads that take different parts.
inline void different_parts(Params p) {
  const bool other = p.faulty && threadIdx.x == 3;
  p.y[threadIdx.x] = block_shared().take<float>(other ? 8 : 16) == nullptr;
}

/// Each block adds to what the blocks before it left.
inline void order_of_blocks(Params p) {
  if (threadIdx.x != 0) return;
  float* sum = p.faulty ? p.y : p.y + blockIdx.x;
  *sum = *sum * 0.5F + p.x[blockIdx.x];
}

/// A race for one element between two warps.
inline void order_of_threads(Params p) {
  if (!p.faulty || threadIdx.x % kWarp == 0)
    p.y[p.faulty ? 0 : threadIdx.x] = static_cast<float>(threadIdx.x);
}

}  // namespace lra::emulator::faults
