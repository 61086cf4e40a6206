// K2. Bias, GELU, dropout and residual sum (ops/feed_forward.h; Hendrycks & Gimpel, arXiv 2016; the
// dropout of ops/dropout.h), x and y [rows,width].
//
// Traffic: forward, x and residual in and y out, each once. Backward, grad and x in, grad_x and
// `dropped` out, each once, and grad_x in again, from cache, for the sums over rows. Work: one draw
// of a dropout is for eight elements 16 apart, and a thread has these; a block of the backward pass
// has whole rows, of which its warps add every eighth.
#include "attention_variants/ops/cuda/kernels/rows/dropout_rows.h"

#include <type_traits>

#include "attention_variants/ops/cuda/kernels/rows/device.h"
#include "attention_variants/ops/cuda/kernels/rows/dropout.h"
#include "attention_variants/ops/cuda/kernels/rows/dropout_draw.h"

namespace lra::ops::cuda {
namespace {

constexpr int kWarps = 8, kThreads = kWarps * kWarp;

struct NoActivation {
  static __device__ __forceinline__ float value(float x) { return x; }
  static __device__ __forceinline__ float slope(float) { return 1; }
};

struct ExactGelu {
  // Φ(x)
  static __device__ __forceinline__ float share(float x) {
    constexpr float kInverseRoot2 = 0.70710678F;
    return 0.5F * (1 + erff(x * kInverseRoot2));
  }
  static __device__ __forceinline__ float value(float x) { return x * share(x); }
  static __device__ __forceinline__ float slope(float x) {
    constexpr float kInverseRoot2Pi = 0.39894228F;
    return share(x) + x * kInverseRoot2Pi * expf(-0.5F * x * x);
  }
};

struct TanhGelu {
  static constexpr float kRoot2ByPi = 0.79788456F, kCubic = 0.044715F;
  static __device__ __forceinline__ float tanh_of(float x) {
    return tanhf(kRoot2ByPi * (x + kCubic * x * x * x));
  }
  static __device__ __forceinline__ float value(float x) { return 0.5F * x * (1 + tanh_of(x)); }
  static __device__ __forceinline__ float slope(float x) {
    const float t = tanh_of(x);
    return 0.5F * (1 + t) + 0.5F * x * (1 - t * t) * kRoot2ByPi * (1 + 3 * kCubic * x * x);
  }
};

__device__ __forceinline__ bool is_real(const DropoutRowsParams& p, int64_t row) {
  return p.mask == nullptr || p.mask[row];
}

template <class Branch, class Result, class Act>
__global__ void __launch_bounds__(kThreads) dropout_rows_forward(DropoutRowsParams p) {
  const auto* x = static_cast<const Branch*>(p.x);
  const auto* residual = static_cast<const Result*>(p.residual);
  auto* y = static_cast<Result*>(p.y);
  DropoutMask dropout(p.dropout);
  const int64_t number =
      DropoutDraw::first(p.dropout, 0) + static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  DropoutDraw(p.dropout, p.width, number)
      .each(0, p.rows * p.width, [&](int64_t e, int64_t row, int c) {
        float sum = 0;
        if (is_real(p, row)) {
          const float of = to_float(x[e]) + (p.bias == nullptr ? 0.0F : p.bias[c]);
          sum = dropout.apply(Act::value(of), e);
          if (residual != nullptr) sum += to_float(residual[e]);
        }
        y[e] = from_float<Result>(sum);
      });
}

// Sums of rows [begin, end) of x [..,width] that this block has written.
template <class T>
__device__ __forceinline__ void sum_rows(const T* x, int64_t begin, int64_t end, int width,
                                         float* sums, float* to) {
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  for (int first = 0; first < width; first += kWarp) {
    const int c = first + lane;
    float sum = 0;
    if (c < width) {
      for (int64_t r = begin + warp; r < end; r += kWarps) sum += to_float(x[r * width + c]);
    }
    sums[threadIdx.x] = sum;
    __syncthreads();
    if (warp == 0 && c < width) {
#pragma unroll
      for (int w = 1; w < kWarps; ++w) sum += sums[w * kWarp + lane];
      to[c] = sum;
    }
    __syncthreads();
  }
}

template <class Branch, class Result, class Act>
__global__ void __launch_bounds__(kThreads) dropout_rows_backward(DropoutRowsParams p) {
  constexpr bool kActivated = !std::is_same_v<Act, NoActivation>;
  const auto* x = static_cast<const Branch*>(p.x);
  const auto* grad = static_cast<const Result*>(p.grad);
  auto* grad_x = static_cast<Branch*>(p.grad_x);
  auto* dropped = static_cast<Branch*>(p.dropped);
  DropoutMask dropout(p.dropout);
  const int64_t part = blockIdx.x, rows = dropout_rows_of_part(p.rows), row = part * rows,
                past = row + rows < p.rows ? row + rows : p.rows, begin = row * p.width,
                end = past * p.width;
  for (int64_t number = DropoutDraw::first(p.dropout, begin) + threadIdx.x;
       number < DropoutDraw::last(p.dropout, end); number += kThreads) {
    DropoutDraw(p.dropout, p.width, number).each(begin, end, [&](int64_t e, int64_t r, int c) {
      float slope = 0, value = 0;
      if (is_real(p, r)) {
        slope = dropout.apply(to_float(grad[e]), e);
        if (kActivated || dropped != nullptr) {
          const float of = to_float(x[e]) + (p.bias == nullptr ? 0.0F : p.bias[c]);
          slope *= Act::slope(of);
          value = dropout.apply(Act::value(of), e);
        }
      }
      grad_x[e] = from_float<Branch>(slope);
      if (dropped != nullptr) dropped[e] = from_float<Branch>(value);
    });
  }
  if (p.parts == nullptr) return;
  Shared shared = block_shared();
  auto* sums = shared.take<float>(kThreads);
  __syncthreads();
  sum_rows(grad_x, row, past, p.width, sums, p.parts + part * p.part_stride);
}

// Calls body(branch, result, activation) with values of the types that these are.
template <class Body>
void with_types(const DropoutRowsParams& p, const Body& body) {
  const auto with_activation = [&](auto branch, auto result) {
    switch (p.activation) {
      case Activation::none:
        return body(branch, result, NoActivation());
      case Activation::gelu:
        return body(branch, result, ExactGelu());
      case Activation::gelu_tanh:
        return body(branch, result, TanhGelu());
    }
  };
  if (p.branch == Storage::f32) return with_activation(float(), float());
  if (p.result == Storage::bf16) return with_activation(bf16(), bf16());
  return with_activation(bf16(), float());
}

}  // namespace

void launch_dropout_rows_forward(const DropoutRowsParams& p, Stream stream) {
  const int64_t draws =
      DropoutDraw::last(p.dropout, p.rows * p.width) - DropoutDraw::first(p.dropout, 0);
  if (p.rows * p.width == 0) return;
  with_types(p, [&](auto branch, auto result, auto activation) {
    launch(dropout_rows_forward<decltype(branch), decltype(result), decltype(activation)>,
           {static_cast<unsigned>(ceil_div<int64_t>(draws, kThreads))}, {kThreads}, 0, stream, p);
  });
}

void launch_dropout_rows_backward(const DropoutRowsParams& p, Stream stream) {
  if (p.rows * p.width == 0) return;
  with_types(p, [&](auto branch, auto result, auto activation) {
    launch(dropout_rows_backward<decltype(branch), decltype(result), decltype(activation)>,
           {static_cast<unsigned>(dropout_rows_parts(p.rows))}, {kThreads},
           shared_bytes<float>(kThreads), stream, p);
  });
}

}  // namespace lra::ops::cuda
