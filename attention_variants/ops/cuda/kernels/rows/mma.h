// Products of small matrices by a warp on tensor cores: D [16,8] += A [16,8] B [8,8].
//
// Fragments as in PTX ISA, "Matrix fragments for mma.m16n8k8": with g = lane / 4 and t = lane % 4 a
// lane holds
//   d  (g, 2t), (g, 2t+1), (g+8, 2t), (g+8, 2t+1)
//   a  (g, t), (g+8, t), (g, t+4), (g+8, t+4)
//   b  (t, g), (t+4, g)
#pragma once

#include "attention_variants/ops/cuda/kernels/rows/device.h"

namespace lra::ops::cuda {

/// Rounded to TF32's 10 bits, ties away from zero.
__device__ __forceinline__ uint32_t tf32(float x) {
#if defined(LRA_CUDA_EMULATOR)
  const uint32_t bits = __float_as_uint(x);
  return x - x == 0 ? (bits + 0x1000) & 0xFFFFE000 : bits;
#else
  uint32_t bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return bits;
#endif
}

#if defined(LRA_CUDA_EMULATOR)
namespace emulated {

// D += A B from the words of all lanes: A's four of a lane, then B's two.
inline void mma_tf32(float (&d)[4], emulator::LaneWords words) {
  const auto value = [](uint32_t word) { return __uint_as_float(word & 0xFFFFE000); };
  const int lane = emulator::lane();
  for (int i = 0; i < 4; ++i) {
    const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
    float sum = 0;
    for (int k = 0; k < 8; ++k) {
      const int step = k / 4, t = k % 4;
      sum += value(words[row % 8 * 4 + t][2 * step + row / 8]) *
             value(words[column * 4 + t][4 + step]);
    }
    d[i] += sum;
  }
}

}  // namespace emulated
#endif

/// Products of TF32, sums in float32. Operands by tf32().
__device__ __forceinline__ void mma_m16n8k8_tf32(float (&d)[4], const uint32_t (&a)[4],
                                                 const uint32_t (&b)[2]) {
#if defined(LRA_CUDA_EMULATOR)
  const uint32_t own[6] = {a[0], a[1], a[2], a[3], b[0], b[1]};
  emulated::mma_tf32(d, emulator::warp_gather({"mma_m16n8k8_tf32", __FILE__, __LINE__}, own, 6));
#else
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

}  // namespace lra::ops::cuda
