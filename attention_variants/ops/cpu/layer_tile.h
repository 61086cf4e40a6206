// A linear layer and a layer normalisation on a tile of rows: what operators over rows are made of.
#pragma once

#include <cstdint>
#include <vector>

#include "attention_variants/ops/cpu/kernels/gemm/gemm.h"
#include "attention_variants/ops/cpu/kernels/rows/row_ops.h"
#include "attention_variants/ops/cpu/row_tiles.h"
#include "attention_variants/torch.h"

namespace lra::ops::cpu {

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
        own_weight(w.contiguous()),
        own_bias(b.contiguous()),
        weight{own_weight.const_data_ptr<float>(), in},
        bias(own_bias.const_data_ptr<float>()),
        transposed(w.t().contiguous()) {}

  /// x [rows,in] -> y [rows,out].
  void forward(const float* x, int64_t rows, float* y) const {
    gemm(rows, out, in, {x, in}, {transposed.const_data_ptr<float>(), out}, {y, out});
    add_bias(y, rows, out, bias);
  }
};

/// One part's sums towards a layer's parameters.
struct LinearGrad {
  std::vector<float> weight, bias;

  explicit LinearGrad(const LinearTile& layer)
      : weight(static_cast<size_t>(layer.in * layer.out)), bias(static_cast<size_t>(layer.out)) {}

  /// Given what the layer read, x [rows,in], and the gradient of its result, grad [rows,out]: adds
  /// to the sums; grad_x [rows,in] = old * grad_x + the gradient of x.
  void backward(const LinearTile& layer, const float* x, const float* grad, int64_t rows, float old,
                float* grad_x) {
    add_column_sums({grad, layer.out}, rows, layer.out, bias.data());
    gemm_tn(layer.out, layer.in, rows, {grad, layer.out}, {x, layer.in}, {weight.data(), layer.in},
            {.old = 1});
    gemm(rows, layer.in, layer.out, {grad, layer.out}, layer.weight, {grad_x, layer.in},
         {.old = old});
  }
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

/// What one part needs to normalise a tile, and its sums towards the parameters.
struct NormSums {
  std::vector<float> rows, mean, inverse_sd, weight, bias;

  explicit NormSums(const NormTile& norm)
      : rows(static_cast<size_t>(kRowTile * norm.width)),
        mean(static_cast<size_t>(norm ? kRowTile : 0)),
        inverse_sd(mean),
        weight(static_cast<size_t>(norm.width)),
        bias(weight) {}

  /// norm(x), or x itself where there is none: what stands after the norm reads.
  const float* forward(const NormTile& norm, const float* x, int64_t count) {
    if (!norm) return x;
    normalise_rows(x, count, norm.width, norm.weight, norm.bias, norm.eps, rows.data(), mean.data(),
                   inverse_sd.data());
    return rows.data();
  }

  /// After forward() of the same x, given the gradient of norm(x): adds to the sums and to grad_x.
  void backward(const NormTile& norm, const float* x, const float* grad, int64_t count,
                float* grad_x) {
    normalise_rows_backward(x, grad, count, norm.width, norm.weight, mean.data(), inverse_sd.data(),
                            grad_x, weight.data(), bias.data());
  }
};

}  // namespace lra::ops::cpu
