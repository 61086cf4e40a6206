// What kernels are written with, in place of CUDA's headers: CUDA itself under nvcc, for sm_80 and
// later, and under LRA_CUDA_EMULATOR the emulator of tests/cuda_emulator, for any C++ compiler.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(LRA_CUDA_EMULATOR)
#include "tests/cuda_emulator/emulator.h"
#else
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <stdexcept>
#include <string>
#endif

#include "attention_variants/ops/cuda/kernels/rows/params.h"

namespace lra::ops::cuda {

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xFFFFFFFF;

/// Of a grid or a block.
struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
};

template <class T>
__host__ __device__ constexpr T ceil_div(T a, T b) {
  return (a + b - 1) / b;
}

// ---- Shared memory ----

/// Bytes of Shared::take<T>(count); a launch asks for the sum of all that its kernel takes.
template <class T>
__host__ __device__ constexpr size_t shared_bytes(size_t count) {
  return ceil_div<size_t>(count * sizeof(T), 16) * 16;
}

/// A block's dynamic shared memory, in parts that all threads take in the same order.
class Shared {
 public:
#if defined(LRA_CUDA_EMULATOR)
  template <class T>
  T* take(size_t count) {
    return static_cast<T*>(emulator::take_shared(count * sizeof(T)));
  }
#else
  explicit __device__ Shared(unsigned char* at) : at_(at) {}

  /// [count], aligned to 16 bytes, not initialised.
  template <class T>
  __device__ T* take(size_t count) {
    T* part = reinterpret_cast<T*>(at_);
    at_ += shared_bytes<T>(count);
    return part;
  }

 private:
  unsigned char* at_;
#endif
};

#if defined(LRA_CUDA_EMULATOR)
inline Shared block_shared() { return {}; }
#else
__device__ inline Shared block_shared() {
  extern __shared__ __align__(16) unsigned char bytes[];
  return Shared(bytes);
}
#endif

// ---- Launches ----

/// Starts kernel(params) on `stream`, with `shared` bytes of dynamic shared memory. Throws
/// std::runtime_error where the driver refuses.
template <class Params>
void launch(void (*kernel)(Params), const Dim3& grid, const Dim3& block, size_t shared,
            Stream stream, const Params& params) {
#if defined(LRA_CUDA_EMULATOR)
  (void)stream;
  struct Call {
    void (*kernel)(Params);
    const Params& params;
  };
  const Call call{kernel, params};
  const auto body = [](const void* of) {
    const auto* call_of = static_cast<const Call*>(of);
    call_of->kernel(call_of->params);
  };
  emulator::run({grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, shared, body, &call);
#else
  const auto check = [](cudaError_t status) {
    if (status == cudaSuccess) return;
    cudaGetLastError();  // not another's
    // As LibTorch words it: memory that ran out and a GPU's fault are known by that.
    throw std::runtime_error(std::string("CUDA error: ") + cudaGetErrorString(status) +
                             " (at the launch of a kernel of this program)");
  };
  constexpr size_t kWithoutAsking = 48 * 1024;
  if (shared > kWithoutAsking) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(shared)));
  }
  Params copy = params;
  void* arguments[] = {&copy};
  check(cudaLaunchKernel(kernel, dim3(grid.x, grid.y, grid.z), dim3(block.x, block.y, block.z),
                         arguments, shared, static_cast<cudaStream_t>(stream)));
#endif
}

// ---- Numbers in memory ----

/// A bfloat16, by its bits.
struct bf16 {
  uint16_t bits;
};

__device__ __forceinline__ float to_float(float x) { return x; }
__device__ __forceinline__ float to_float(bf16 x) {
  return __uint_as_float(static_cast<unsigned>(x.bits) << 16);
}

template <class T>
__device__ T from_float(float x);
template <>
__device__ __forceinline__ float from_float<float>(float x) {
  return x;
}
/// To the nearest, ties to even.
template <>
__device__ __forceinline__ bf16 from_float<bf16>(float x) {
#if defined(LRA_CUDA_EMULATOR)
  const unsigned bits = __float_as_uint(x);
  if (x != x) return {0x7FFF};
  return {static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16)};
#else
  return {__bfloat16_as_ushort(__float2bfloat16_rn(x))};
#endif
}

/// Four numbers in one access; aligned to 4 * sizeof(T).
__device__ __forceinline__ float4 load4(const float* x) {
  return *reinterpret_cast<const float4*>(x);
}
__device__ __forceinline__ float4 load4(const bf16* x) {
  const uint2 two = *reinterpret_cast<const uint2*>(x);
  return make_float4(__uint_as_float(two.x << 16), __uint_as_float(two.x & 0xFFFF0000),
                     __uint_as_float(two.y << 16), __uint_as_float(two.y & 0xFFFF0000));
}
__device__ __forceinline__ void store4(float* to, float4 x) { *reinterpret_cast<float4*>(to) = x; }
/// Two bfloat16 in a word, `low` in its lower half.
__device__ __forceinline__ uint32_t pack_bf16(float low, float high) {
  return from_float<bf16>(low).bits | static_cast<uint32_t>(from_float<bf16>(high).bits) << 16;
}
__device__ __forceinline__ void store4(bf16* to, float4 x) {
  *reinterpret_cast<uint2*>(to) = make_uint2(pack_bf16(x.x, x.y), pack_bf16(x.z, x.w));
}

}  // namespace lra::ops::cuda
