#include "lra/model/blocks/norm.h"

#include "attention_variants/ops/layer_norm.h"
#include "attention_variants/ops/padding.h"
#include "lra/model/blocks/rows.h"

namespace lra {
namespace {

// Whether no row is padding. A GPU is not asked: it would have to be waited for.
bool all_true(const torch::Tensor& mask) {
  return ops::FullMask::covers(mask) || (mask.device().is_cpu() && mask.all().item<bool>());
}

}  // namespace

BatchNormImpl::BatchNormImpl(const ModelOptions& options)
    : eps_(options.norm_eps),
      momentum_(options.batch_momentum),
      weight_(register_parameter("weight", torch::ones({options.width}))),
      bias_(register_parameter("bias", torch::zeros({options.width}))),
      running_mean_(register_buffer("running_mean", torch::zeros({options.width}))),
      running_var_(register_buffer("running_var", torch::ones({options.width}))) {}

torch::Tensor BatchNormImpl::forward(const torch::Tensor& x, const BlockPass& pass) {
  const torch::Tensor rows = x.to(weight_.scalar_type());
  const bool apart = is_training() && pass.options.batch_statistics == BatchStatistics::real &&
                     !all_true(pass.mask);
  // LibTorch's unbiased variance of one row is no number, and the running one would be none.
  const bool one = is_training() && rows.size(0) * rows.size(1) == 1;
  const torch::Tensor y =
      apart || one
          ? counted_apart(rows, pass.mask)
          : torch::batch_norm(rows.flatten(0, 1), weight_, bias_, running_mean_, running_var_,
                              is_training(), momentum_, eps_, /*cudnn_enabled=*/false)
                .view_as(rows);
  return y.to(x.scalar_type());
}

torch::Tensor BatchNormImpl::counted_apart(const torch::Tensor& x, const torch::Tensor& counts) {
  const torch::Tensor real = counts.unsqueeze(-1), zero = torch::zeros({}, x.options());
  const torch::Tensor count = real.sum().clamp_min(1).to(x.scalar_type());
  const torch::Tensor mean = torch::where(real, x, zero).flatten(0, 1).sum(0) / count;  // [D]
  const torch::Tensor centred = x - mean;  // of padding too: what reads it sees it as in evaluation
  const torch::Tensor variance =
      torch::where(real, centred, zero).square().flatten(0, 1).sum(0) / count;
  {
    const torch::NoGradGuard no_grad;
    running_mean_.lerp_(mean, momentum_);
    running_var_.lerp_(variance * (count / (count - 1).clamp_min(1)), momentum_);
  }
  return centred * ((variance + eps_).rsqrt() * weight_) + bias_;
}

ScaleNormImpl::ScaleNormImpl(double eps)
    : eps_(eps), scale_(register_parameter("scale", torch::ones({1}))) {}

torch::Tensor ScaleNormImpl::forward(const torch::Tensor& x) const {
  const torch::Tensor rows = x.to(scale_.scalar_type());
  return (rows * ((rows.square().mean(-1, /*keepdim=*/true) + eps_).rsqrt() * scale_))
      .to(x.scalar_type());
}

Norm::Norm(const ModelOptions& o) {
  if (o.norm_kind == NormKind::batch) {
    batch_ = BatchNorm(o);
  } else if (o.norm_kind == NormKind::scale) {
    scale_ = ScaleNorm(o.norm_eps);
  } else {
    layer_ = torch::nn::LayerNorm(torch::nn::LayerNormOptions({o.width}).eps(o.norm_eps));
  }
}

void Norm::register_in(torch::nn::Module& model, const std::string& name) const {
  if (layer_) model.register_module(name, layer_);
  if (batch_) model.register_module(name, batch_);
  if (scale_) model.register_module(name, scale_);
}

torch::Tensor Norm::forward(const torch::Tensor& x, const BlockPass& pass) const {
  if (layer_) return ops::layer_norm(pass.kernels, x, weights_of(layer_), pass.real);
  return batch_ ? batch_.ptr()->forward(x, pass) : scale_->forward(x);
}

}  // namespace lra
