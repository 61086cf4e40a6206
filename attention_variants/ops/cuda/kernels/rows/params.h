// What the parameters of all kernels are made of; no CUDA types, so that host code has them too.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lra::ops::cuda {

/// A cudaStream_t.
using Stream = void*;

/// What the largest kernels ask of a block's shared memory, which those of data centres have
/// (sm_80, sm_90), and what all from sm_80 on have.
inline constexpr int kMostSharedBytes = 163 * 1024, kLeastSharedBytes = 99 * 1024;

/// How numbers are stored; all arithmetic is in float32.
enum class Storage { f32, bf16 };

/// The dropout of one tensor: element e is kept where 16 random bits, those of element first + e
/// of philox_dropout() under the seed, are at least `threshold`.
struct DropoutStream {
  uint64_t seed = 0;
  const uint64_t* device_seed = nullptr;  // read at the launch's time in place of seed; or null
  uint32_t threshold = 0;                 // of 65536; 0: all are kept
  float scale = 1;                        // of what is kept: dropout_scale(threshold)
  int64_t first = 0;
};

/// Rows and columns of a tile of pairs of positions.
inline constexpr int kTileRows = 64, kTileColumns = 32;

}  // namespace lra::ops::cuda
