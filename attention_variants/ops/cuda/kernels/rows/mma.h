// Products of small matrices by a warp on tensor cores: D [16,8] += A [16,K] B [K,8].
//
// Fragments as in PTX ISA, "Matrix fragments for mma.m16n8k8" and "m16n8k16": with g = lane / 4 and
// t = lane % 4 a lane holds
//   d     (g, 2t), (g, 2t+1), (g+8, 2t), (g+8, 2t+1)
//   float32, K = 8:    a  (g, t), (g+8, t), (g, t+4), (g+8, t+4)      b  (t, g), (t+4, g)
//   bfloat16, K = 16:  a  (g, 2t..), (g+8, 2t..), (g, 2t+8..), (g+8, 2t+8..)
//                      b  (2t.., g), (2t+8.., g)     pairs in a word, the first in its lower half
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

// D += A B, K = `steps` * 4 * `pairs` rows of B, from the words of all lanes: A's 2 `steps` of a
// lane, then B's `steps`. value(word, of a pair) gives an element.
template <int pairs, int steps, class Value>
void mma(float (&d)[4], emulator::LaneWords words, const Value& value) {
  const int lane = emulator::lane();
  for (int i = 0; i < 4; ++i) {
    const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
    float sum = 0;
    for (int k = 0; k < steps * 4 * pairs; ++k) {
      const int step = k / (4 * pairs), t = k % (4 * pairs) / pairs, of = k % pairs;
      const uint32_t a = words[row % 8 * 4 + t][2 * step + row / 8];
      const uint32_t b = words[column * 4 + t][2 * steps + step];
      sum += value(a, of) * value(b, of);
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
  emulated::mma<1, 2>(d, emulator::warp_gather({"mma_m16n8k8_tf32", __FILE__, __LINE__}, own, 6),
                      [](uint32_t word, int) { return __uint_as_float(word & 0xFFFFE000); });
#else
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

/// Products of bfloat16, sums in float32. Operands in pairs by pack_bf16().
__device__ __forceinline__ void mma_m16n8k16_bf16(float (&d)[4], const uint32_t (&a)[4],
                                                  const uint32_t (&b)[2]) {
#if defined(LRA_CUDA_EMULATOR)
  const uint32_t own[6] = {a[0], a[1], a[2], a[3], b[0], b[1]};
  emulated::mma<2, 2>(d, emulator::warp_gather({"mma_m16n8k16_bf16", __FILE__, __LINE__}, own, 6),
                      [](uint32_t word, int of) {
                        return __uint_as_float(of == 0 ? word << 16 : word & 0xFFFF0000);
                      });
#else
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

}  // namespace lra::ops::cuda
