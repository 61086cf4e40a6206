#include "attention_variants/ops/padding.h"

#include <cmath>
#include <utility>

namespace lra::ops {
namespace {

thread_local torch::Tensor t_full_mask;

}  // namespace

FullMask::FullMask(torch::Tensor mask) : before_(t_full_mask) { t_full_mask = std::move(mask); }

FullMask::~FullMask() { t_full_mask = before_; }

bool FullMask::covers(const torch::Tensor& mask) {
  return t_full_mask.defined() && mask.defined() && !mask.is_cpu() && mask.is_alias_of(t_full_mask);
}

torch::Tensor nonempty_rows(const torch::Tensor& mask) {
  return mask.logical_or(mask.any(/*dim=*/-1, /*keepdim=*/true).logical_not());
}

torch::Tensor zero_padding(const torch::Tensor& x, const torch::Tensor& mask) {
  return x.masked_fill(mask.logical_not().unsqueeze(1).unsqueeze(-1), 0);
}

torch::Tensor zero_padded_rows(torch::Tensor fresh, const torch::Tensor& mask) {
  if (fresh.requires_grad()) return zero_padding(fresh, mask);
  return fresh.masked_fill_(mask.logical_not().unsqueeze(1).unsqueeze(-1), 0);
}

torch::Tensor uniform_attention(const torch::Tensor& q, const torch::Tensor& k,
                                const torch::Tensor& v) {
  const torch::Tensor mean = v.mean(-2, /*keepdim=*/true);  // [..,1,d]
  // With equal weights 1/N the gradient of logit (i, j) is (g_i v_j - g_i mean) / N: that of this
  // product, whose value is taken away.
  const double scale =
      1 / (std::sqrt(static_cast<double>(q.size(-1))) * static_cast<double>(k.size(-2)));
  const torch::Tensor slope =
      torch::matmul(q, torch::matmul(k.transpose(-2, -1), (v - mean).detach())) * scale;
  return mean + (slope - slope.detach());
}

}  // namespace lra::ops
