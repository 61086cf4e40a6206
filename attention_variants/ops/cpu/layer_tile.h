// A linear layer, a layer normalisation and a dropout on a tile of rows: what operators over rows
// are made of.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "attention_variants/ops/cpu/dropout.h"
#include "attention_variants/ops/cpu/kernels/gemm/gemm.h"
#include "attention_variants/ops/cpu/kernels/rows/dropout_bits.h"
#include "attention_variants/ops/cpu/kernels/rows/row_ops.h"
#include "attention_variants/ops/cpu/row_tiles.h"
#include "attention_variants/ops/heads.h"
#include "attention_variants/torch.h"

namespace lra::ops::cpu {

/// A parameter as the loops read it: contiguous, and in float32 where it is of a module in
/// bfloat16, which may be called under autocast too.
inline torch::Tensor float_parameter(const torch::Tensor& parameter) {
  const bool rounded = parameter.scalar_type() == torch::kBFloat16;
  return dense(rounded ? parameter.to(torch::kFloat) : parameter);
}

/// A linear layer as the loops see it: y = x Wᵀ + b. W and b are float32, laid out in any way.
struct LinearTile {
  int64_t in, out;
  torch::Tensor own_weight, own_bias;  // contiguous
  ConstMatrix weight;                  // [out,in]
  const float* bias;
  torch::Tensor transposed;  // Wᵀ [in,out]: once, and not for every tile

  LinearTile(const torch::Tensor& w, const torch::Tensor& b)
      : in(w.size(1)),
        out(w.size(0)),
        own_weight(dense(w)),
        own_bias(dense(b)),
        weight{own_weight.const_data_ptr<float>(), in},
        bias(own_bias.const_data_ptr<float>()),
        transposed(dense(w.t())) {}

  /// x [rows,in] -> y [rows,out].
  void forward(const float* x, int64_t rows, float* y) const {
    multiply(x, rows, y);
    add_bias(y, rows, out, bias);
  }
  /// The same without the bias.
  void multiply(const float* x, int64_t rows, float* y) const {
    gemm(rows, out, in, {x, in}, {transposed.const_data_ptr<float>(), out}, {y, out});
  }
};

/// One worker's sums towards a layer's parameters.
struct LinearGrad {
  float *weight, *bias;  // [out,in], [out]

  LinearGrad(const LinearTile& layer, Arena& arena)
      : weight(take_zeros(arena, layer.out * layer.in)), bias(take_zeros(arena, layer.out)) {}

  /// Given what the layer read, x [rows,in], and the gradient of its result, grad [rows,out]: adds
  /// to the sums; grad_x [rows,in] = old * grad_x + the gradient of x.
  void backward(const LinearTile& layer, const float* x, const float* grad, int64_t rows, float old,
                float* grad_x) const {
    add_bias_grad(layer, grad, rows);
    backward_of_products(layer, x, grad, rows, old, grad_x);
  }
  void add_bias_grad(const LinearTile& layer, const float* grad, int64_t rows) const {
    add_column_sums({grad, layer.out}, rows, layer.out, bias);
  }
  /// All but the bias.
  void backward_of_products(const LinearTile& layer, const float* x, const float* grad,
                            int64_t rows, float old, float* grad_x) const {
    gemm_tn(layer.out, layer.in, rows, {grad, layer.out}, {x, layer.in}, {weight, layer.in},
            {.old = 1});
    gemm(rows, layer.in, layer.out, {grad, layer.out}, layer.weight, {grad_x, layer.in},
         {.old = old});
  }
};

/// What a worker needs for the backward pass of one layer.
struct LayerPart {
  LinearGrad layer;
  float* given;  // [kRowTile,out], of a tile, where its gradient is not read as it lies
  TilesBetween between;

  LayerPart(const LinearTile& of, const StoredList& stored, Arena& arena)
      : layer(of, arena), given(arena.take(kRowTile * of.out)), between(stored, arena) {}
};

/// A layer normalisation as the loops see it; none where its weight is empty. Contiguous float32.
struct NormTile {
  int64_t width;  // 0: none
  const float *weight, *bias;
  float eps;

  NormTile(const torch::Tensor& w, const torch::Tensor& b, double e)
      : width(w.numel()),
        weight(w.const_data_ptr<float>()),
        bias(b.const_data_ptr<float>()),
        eps(static_cast<float>(e)) {}
  explicit operator bool() const { return width > 0; }
};

/// A normalised tile, and each row's mean and inverse standard deviation.
struct NormRows {
  float *rows, *mean, *inverse_sd;  // [kRowTile,width], [kRowTile]

  NormRows(const NormTile& norm, Arena& arena)
      : rows(arena.take(kRowTile * norm.width)),
        mean(arena.take(norm ? kRowTile : 0)),
        inverse_sd(arena.take(norm ? kRowTile : 0)) {}

  /// norm(x), or x itself where there is none: what stands after the norm reads.
  const float* forward(const NormTile& norm, const float* x, int64_t count) const {
    if (!norm) return x;
    normalise_rows(x, count, norm.width, norm.weight, norm.bias, norm.eps, rows, mean, inverse_sd);
    return rows;
  }
};

/// One worker's sums towards a normalisation's parameters.
struct NormGrad {
  float *weight, *bias;  // [width]

  NormGrad(const NormTile& norm, Arena& arena)
      : weight(take_zeros(arena, norm.width)), bias(take_zeros(arena, norm.width)) {}

  /// Given what was normalised, its moments and the gradient of the result: adds to the sums;
  /// grad_x = past (null: zeros) + the gradient of x.
  void backward(const NormTile& norm, const float* x, const float* mean, const float* inverse_sd,
                const float* grad, int64_t count, const float* past, float* grad_x) const {
    normalise_rows_backward(x, grad, count, norm.width, norm.weight, mean, inverse_sd, past, grad_x,
                            weight, bias);
  }
};

static_assert(kRowTile % kDropoutBlock == 0, "a tile should begin a block of a dropout");

/// Calls body(first row, rows) for parts of a tile of rows [rows,width], as many rows as stay in a
/// core's first cache from one step over their elements to the next, and begin a block of a
/// dropout.
template <class Body>
void for_parts(int64_t rows, int64_t width, const Body& body) {
  constexpr int64_t kElements = 4096;
  const int64_t step = kDropoutBlock / std::gcd(width, kDropoutBlock),
                count = std::max(kElements / width / step, int64_t{1}) * step;
  for (int64_t begin = 0; begin < rows; begin += count) body(begin, std::min(count, rows - begin));
}

/// y [rows,width], the product of `layer`, becomes x + dropout(y + b), of the rows from `begin` on.
inline void add_dropped_out(const LinearTile& layer, const DropoutMask& dropout, const float* x,
                            int64_t begin, int64_t rows, float* y) {
  const int64_t width = layer.out;
  for_parts(rows, width, [&](int64_t first, int64_t n) {
    const int64_t at = first * width, count = n * width;
    float* const part = y + at;
    add_bias(part, n, width, layer.bias);
    apply_dropout(dropout, begin * width + at, count, part, part);
    add(x + at, part, count, part);
  });
}

}  // namespace lra::ops::cpu
