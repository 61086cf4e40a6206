// Rows of tensors as the CUDA kernels and the products between them read them.
#pragma once

#include <cstdint>
#include <vector>

#include "attention_variants/ops/autocast.h"
#include "attention_variants/ops/cuda/kernels/rows/dropout_rows.h"
#include "attention_variants/torch.h"

namespace lra::ops::cuda {

/// x [...,D] as [rows,D].
torch::Tensor as_rows(const torch::Tensor& x);

/// Of a mask that may be undefined (all true): what autograd can keep, and the mask that it is of.
torch::Tensor kept_mask(const torch::Tensor& mask, const torch::Tensor& x);
const bool* mask_of(const torch::Tensor& kept);

/// A parameter in the type of products, by autocast's cache; differentiable.
torch::Tensor product_weight(const torch::Tensor& weight, torch::ScalarType type);

/// A bias, or a norm's parameter [D], as kernels read it: float32, side by side; differentiable.
torch::Tensor float_row(const torch::Tensor& parameter);

/// y = residual + dropout(activation(x + bias)) for x [rows,width] on its way to the next product;
/// rows of padding become zero.
struct RowsStep {
  Activation activation = Activation::none;
  DropoutStream dropout;

  /// In the type of the residual, or without one (undefined) of x; bias may be undefined.
  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& bias,
                        const torch::Tensor& residual, const torch::Tensor& mask) const;

  /// Given the gradient of y, writes grad_x, which may be `grad`, and where they are defined
  /// `dropped`, dropout(activation(x + bias)) once more, and `parts` [..,width] of empty_parts(). x
  /// and bias may be undefined where there is no activation.
  void backward(const torch::Tensor& x, const torch::Tensor& bias, const torch::Tensor& grad,
                const torch::Tensor& mask, const torch::Tensor& grad_x,
                const torch::Tensor& dropped, const torch::Tensor& parts) const;
};

/// Sums over rows of x [rows,..], `width` of them, before sum_parts().
torch::Tensor empty_parts(const torch::Tensor& x, int64_t width);

/// Those of x [rows,width] itself.
torch::Tensor column_parts(const torch::Tensor& x);

/// Sums over parts [count,columns] -> [columns], in a fixed order.
torch::Tensor sum_parts(const torch::Tensor& parts);

/// Rows [B,N,width] of each, joined [B,N,widths]: a view where they lie side by side in one tensor.
torch::Tensor join_rows(const std::vector<torch::Tensor>& parts);

/// The layer normalisation of rows, and what its backward pass needs.
struct NormedRows {
  torch::Tensor rows;     // [rows,D]; those of padding are zero
  torch::Tensor moments;  // [2,rows]
};

/// x [rows,D] normalised, in `type`; weight and bias [D] float32, D at most kMaxNormWidth.
NormedRows norm_rows(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias,
                     double eps, const torch::Tensor& mask, torch::ScalarType type);

struct NormedRowsGrads {
  torch::Tensor x, weight, bias;
  torch::Tensor others;  // sum_parts() of other parts
};

/// Given the gradients of the normalised rows and, past the norm, of x itself. Two launches, the
/// second of which adds up `other_parts`, if defined, too. With `factors` [B] grad_normed is [B,D],
/// and its row b times factor b that of all rows of sample b.
NormedRowsGrads norm_rows_backward(const torch::Tensor& x, const torch::Tensor& weight,
                                   const torch::Tensor& moments, const torch::Tensor& mask,
                                   const torch::Tensor& grad_normed, const torch::Tensor& grad_past,
                                   const torch::Tensor& other_parts = {},
                                   const torch::Tensor& factors = {});

}  // namespace lra::ops::cuda
