#include "lra/model/pooling.h"

#include <limits>

#include "attention_variants/ops/layer_norm.h"
#include "attention_variants/ops/padding.h"
#include "lra/model/blocks/rows.h"

namespace lra {
namespace {

// Row [B,D] of x [B,N,D] at the last position where mask [B,N] is true; the first where none is.
torch::Tensor last_real(const torch::Tensor& x, const torch::Tensor& mask) {
  const torch::Tensor at =
      (mask * torch::arange(mask.size(1), mask.options().dtype(torch::kLong))).argmax(1);  // [B]
  return x.gather(1, at.view({-1, 1, 1}).expand({-1, 1, x.size(2)})).squeeze(1);
}

torch::Tensor greatest(const torch::Tensor& x, const torch::Tensor& mask) {
  return x.masked_fill(mask.logical_not().unsqueeze(-1), -std::numeric_limits<double>::infinity())
      .amax(1);
}

}  // namespace

torch::Tensor pool(const torch::Tensor& rows, const torch::Tensor& mask, const Norm& norm,
                   const BlockPass& pass) {
  const ModelOptions& o = pass.options;
  const torch::nn::LayerNorm& by_row = norm.layer();
  // A norm over more than a row comes before any is chosen.
  const torch::Tensor x = norm.exists() && !by_row ? norm.forward(rows, pass) : rows;
  const auto normed = [&](const torch::Tensor& y) { return by_row ? by_row.ptr()->forward(y) : y; };
  switch (o.pooling) {
    case Pooling::cls:
    case Pooling::first:
      return normed(x.select(1, 0));
    case Pooling::last:
      return normed(last_real(x, mask));
    case Pooling::max: {
      const torch::Tensor read = ops::nonempty_rows(mask);
      return greatest(by_row ? ops::layer_norm(pass.kernels, x, weights_of(by_row), read) : x,
                      read);
    }
    case Pooling::mean:
      break;
  }
  if (mean_of_all(o)) return normed(x).mean(1);
  const int64_t over = o.mean_over == MeanOver::length ? mask.size(1) : 0;
  if (by_row) return ops::layer_norm_mean(pass.kernels, x, weights_of(by_row), mask, over);
  return ops::mean_of_rows((x * mask.unsqueeze(-1).to(x.scalar_type())).sum(1), mask, over);
}

torch::Tensor join_pair(const torch::Tensor& pooled, PairForm form) {
  const auto both = pooled.reshape({pooled.size(0) / 2, 2, -1});
  const auto a = both.select(1, 0), b = both.select(1, 1);                 // [B,D]
  return form == PairForm::concat ? torch::cat({a, b}, -1)                 // [B,2D]
                                  : torch::cat({a, b, a * b, a - b}, -1);  // [B,4D]
}

}  // namespace lra
