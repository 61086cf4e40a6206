// The number types and widths that the kernels of add_norm.h are compiled for.
#pragma once

#include "attention_variants/ops/cuda/kernels/rows/add_norm.h"
#include "attention_variants/ops/cuda/kernels/rows/device.h"

namespace lra::ops::cuda {

inline constexpr int kAddNormWarps = 8;

/// Types of the residual, of what is added and of the result.
template <class X, class Y, class N>
struct AddNormTypes {
  using Residual = X;
  using Added = Y;
  using Result = N;
};

/// Calls body(AddNormTypes) for what params say.
template <class Params, class Body>
void with_add_norm_types(const Params& p, const Body& body) {
  constexpr Storage f32 = Storage::f32;
  if (p.residual != f32) return body(AddNormTypes<bf16, bf16, bf16>());
  if (p.added == f32) return body(AddNormTypes<float, float, float>());
  if (p.result == f32) return body(AddNormTypes<float, bf16, float>());
  return body(AddNormTypes<float, bf16, bf16>());
}

template <int n>
struct Items {
  static constexpr int value = n;
};

/// Calls body(Items<n>) with elements that a lane has of a row: width <= 32 n.
template <class Body>
void with_add_norm_items(int width, const Body& body) {
  if (width <= 64) return body(Items<2>());
  if (width <= 128) return body(Items<4>());
  if (width <= 256) return body(Items<8>());
  if (width <= 512) return body(Items<16>());
  return body(Items<32>());
}

}  // namespace lra::ops::cuda
