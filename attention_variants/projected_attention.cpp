// The attention interface's own part: shape checks, and the projections that nearly every variant
// shares.
#include "attention_variants/attention.h"

#include <fmt/ranges.h>

#include <string>

#include "attention_variants/ops/layer_norm.h"

namespace lra {

std::string shape_text(const torch::Tensor& t) {
  if (!t.defined()) return "undefined";
  return fmt::format("[{}] {}", fmt::join(t.sizes(), ","), c10::toString(t.scalar_type()));
}

namespace {

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
  throw Unsupported("this attention has no form that takes q, k and v: call forward(x, mask)");
}

int64_t Attention::analytic_bytes(int64_t, int64_t, int64_t, bool) const { return -1; }

int64_t Attention::flops(int64_t, int64_t) const { return -1; }

bool Attention::reads_padding() const { return false; }

bool Attention::length_invariant() const { return false; }

Projections Attention::projections() const { return Projections::query_key_value; }

std::vector<std::string> Attention::tables() const { return {}; }

void Attention::set_table(const std::string& name, const torch::Tensor&) {
  throw unknown_name("table", name, tables(), "this attention");
}

ProjectedAttention::ProjectedAttention(const AttentionContext& context, Projections projections)
    : context_(context), projections_(projections) {
  const int64_t joined = context.heads * context.head_dim;
  const auto add = [&](const char* name, int64_t from, int64_t to) {
    return register_module(name, torch::nn::Linear(from, to));
  };
  if (projections == Projections::query_key_value) {
    query_ = add("query", context.width, joined);
    key_ = add("key", context.width, joined);
  } else if (projections == Projections::shared_query_key) {
    query_ = add("query_key", context.width, joined);
  }
  value_ = add("value", context.width, joined);
  output_ = add("output", joined, context.width);
}

torch::Tensor ProjectedAttention::forward(const torch::Tensor& x, const torch::Tensor& mask) {
  AttentionRows rows{.x = x};
  const torch::Tensor joined = mix(rows, mask);
  if (has_cpu_kernels(context_.kernels, joined)) return masked_linear_rows(joined, output(), mask);
  // The output projection has a bias, so padded rows are zeroed once more.
  return output_->forward(joined).masked_fill(~mask.unsqueeze(-1), 0);
}

torch::Tensor ProjectedAttention::mix(AttentionRows& rows, const torch::Tensor& mask) {
  check_input(rows.x, mask);
  const int64_t batch = rows.x.size(0), length = rows.x.size(1);
  const torch::Tensor mixed = mix_heads(rows, mask);
  check_attention_result(mixed, rows.x, {batch, context_.heads, length, context_.head_dim});
  return mixed.transpose(1, 2).reshape({batch, length, -1});
}

torch::Tensor ProjectedAttention::mix_heads(AttentionRows& rows, const torch::Tensor& mask) {
  torch::Tensor q, k, v;
  if (has_cpu_kernels(context_.kernels, rows.x)) {
    std::vector<LinearWeights> layers;
    for (const torch::nn::Linear& layer : {query_, key_, value_}) {
      if (!layer.is_empty()) layers.push_back({.weight = layer->weight, .bias = layer->bias});
    }
    const auto [y, x] =
        linear_rows(rows.x, rows.norm, layers, reads_padding() ? torch::Tensor() : mask);
    rows.x = x;
    q = split_heads(y.front());
    k = layers.size() == 3 ? split_heads(y[1]) : q;
    v = layers.size() == 1 ? q : split_heads(y.back());
  } else {
    const torch::Tensor x = normed(rows, mask);
    v = project_value(x);
    q = query_.is_empty() ? v : split_heads(query_->forward(x));
    k = key_.is_empty() ? q : split_heads(key_->forward(x));
  }
  return attend(q, k, v, mask);
}

void ProjectedAttention::check_input(const torch::Tensor& x, const torch::Tensor& mask) const {
  if (x.dim() != 3 || x.size(1) < 1 || x.size(2) != context_.width) {
    throw Error(fmt::format("x should be [B,N,{}] with N of at least 1, not {}", context_.width,
                            shape_text(x)));
  }
  check_mask(mask, x.size(0), x.size(1));
}

torch::Tensor ProjectedAttention::split_heads(const torch::Tensor& joined) const {
  return joined.view({joined.size(0), joined.size(1), context_.heads, context_.head_dim})
      .transpose(1, 2);
}

Projections ProjectedAttention::projections() const { return projections_; }

torch::Tensor ProjectedAttention::project_value(const torch::Tensor& x) {
  return split_heads(value_->forward(x));
}

torch::Tensor ProjectedAttention::normed(const AttentionRows& rows,
                                         const torch::Tensor& mask) const {
  if (rows.norm == nullptr) return rows.x;
  const auto& [weight, bias, eps] = *rows.norm;
  return has_cpu_kernels(context_.kernels, rows.x)
             ? layer_norm(rows.x, weight, bias, eps, reads_padding() ? torch::Tensor() : mask)
             : torch::layer_norm(rows.x, {rows.x.size(2)}, weight, bias, eps);
}

bool is_projection(const std::string& state_name) {
  const std::string module = state_name.substr(0, state_name.find('.'));
  if (module.size() == state_name.size()) return false;
  return module == "query" || module == "key" || module == "query_key" || module == "value" ||
         module == "output";
}

void check_attention_result(const torch::Tensor& y, const torch::Tensor& x,
                            at::IntArrayRef expected) {
  if (y.defined() && y.sizes() == expected) return;
  throw Error(fmt::format("this attention should give [{}] of x [{}], not {}",
                          fmt::join(expected, ","), fmt::join(x.sizes(), ","), shape_text(y)));
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
