// The attention interface's own part: shape checks, and the projections that nearly every variant
// shares.
#include "attention_variants/attention.h"

#include <fmt/ranges.h>

#include <string>

#include "attention_variants/softmax.h"

namespace lra {
namespace {

std::string shape_text(const torch::Tensor& t) {
  if (!t.defined()) return "undefined";
  return fmt::format("[{}] {}", fmt::join(t.sizes(), ","), c10::toString(t.scalar_type()));
}

void check_mask(const torch::Tensor& mask, int64_t batch, int64_t length) {
  if (!mask.defined() || mask.dim() != 2 || mask.size(0) != batch || mask.size(1) != length ||
      mask.scalar_type() != torch::kBool) {
    throw Error(fmt::format("mask should be [{},{}] Bool (true = a token), not {}", batch, length,
                            shape_text(mask)));
  }
}

}  // namespace

torch::Tensor Attention::attend(const torch::Tensor&, const torch::Tensor&, const torch::Tensor&,
                                const torch::Tensor&) {
  throw Error("this attention has no form that takes q, k and v: call forward(x, mask)");
}

int64_t Attention::analytic_bytes(int64_t, int64_t, int64_t, bool) const { return -1; }

int64_t Attention::flops(int64_t, int64_t) const { return -1; }

ProjectedAttention::ProjectedAttention(const AttentionContext& context)
    : context_(context),
      query_(register_module("query",
                             torch::nn::Linear(context.width, context.heads * context.head_dim))),
      key_(register_module("key",
                           torch::nn::Linear(context.width, context.heads * context.head_dim))),
      value_(register_module("value",
                             torch::nn::Linear(context.width, context.heads * context.head_dim))),
      output_(register_module(
          "output", torch::nn::Linear(context.heads * context.head_dim, context.width))) {}

torch::Tensor ProjectedAttention::forward(const torch::Tensor& x, const torch::Tensor& mask) {
  if (x.dim() != 3 || x.size(1) < 1 || x.size(2) != context_.width) {
    throw Error(fmt::format("x should be [B,N,{}] with N of at least 1, not {}", context_.width,
                            shape_text(x)));
  }
  const int64_t batch = x.size(0), length = x.size(1);
  check_mask(mask, batch, length);
  const auto heads = [&](torch::nn::Linear& projection) {  // [B,N,D] -> [B,H,N,d], a view
    return projection->forward(x)
        .view({batch, length, context_.heads, context_.head_dim})
        .transpose(1, 2);
  };
  const torch::Tensor mixed = attend(heads(query_), heads(key_), heads(value_), mask);  // [B,H,N,d]
  const torch::Tensor joined = mixed.transpose(1, 2).reshape({batch, length, -1});      // [B,N,H*d]
  // The output projection has a bias, so padded rows are zeroed once more.
  return output_->forward(joined).masked_fill(~mask.unsqueeze(-1), 0);
}

void check_attend_inputs(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                         const torch::Tensor& mask) {
  if (!q.defined() || q.dim() != 4 || q.size(2) < 1 || !q.is_floating_point()) {
    throw Error("q should be [B,H,N,d] of a floating-point type with N of at least 1, not " +
                shape_text(q));
  }
  const auto same = [&q](const torch::Tensor& t, const char* name) {
    if (!t.defined() || t.sizes() != q.sizes() || t.scalar_type() != q.scalar_type()) {
      throw Error(
          fmt::format("{} should be like q, {}, not {}", name, shape_text(q), shape_text(t)));
    }
  };
  same(k, "k");
  same(v, "v");
  check_mask(mask, q.size(0), q.size(2));
}

}  // namespace lra
