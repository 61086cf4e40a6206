#include "attention_variants/projected_attention.h"

#include <fmt/ranges.h>

#include <string>

#include "attention_variants/ops/layer_norm.h"
#include "attention_variants/ops/padding.h"
#include "attention_variants/ops/rotary.h"

namespace lra {

ProjectedAttention::ProjectedAttention(const AttentionContext& context, Projections projections,
                                       bool bias)
    : context_(context), projections_(projections) {
  const int64_t joined = context.heads * context.head_dim;
  const auto add = [&](const char* name, int64_t from, int64_t to, bool with_bias) {
    return register_module(name,
                           torch::nn::Linear(torch::nn::LinearOptions(from, to).bias(with_bias)));
  };
  const auto add_input = [&](const char* name) {
    return add(name, context.width, joined, context.bias && bias);
  };
  if (projections == Projections::query_key_value) {
    query_ = add_input("query");
    key_ = add_input("key");
  } else if (projections == Projections::shared_query_key) {
    query_ = add_input("query_key");
  }
  value_ = add_input("value");
  output_ = add("output", joined, context.width, context.bias);
}

torch::Tensor ProjectedAttention::forward(const torch::Tensor& x, const torch::Tensor& mask) {
  check_layer_input(x, mask, context_.width);
  if (x.size(0) == 0) return x.clone();  // nothing to attend to
  // Own kernels leave padding out of the gradients of weights. LibTorch's operators, which compute
  // types but float32 outside of autocast, multiply what stands there by zero.
  const bool as_given = x.scalar_type() == torch::kFloat || computes_padding();
  NormedInput rows{.x = as_given ? x : x.masked_fill(mask.logical_not().unsqueeze(-1), 0)};
  const auto [joined, output] = attend_unprojected(rows, mask);
  // The output projection has a bias, so padded rows are zeroed once more.
  return ops::masked_linear(
      context_.kernels, joined, output,
      context_.padded_rows == PaddedRows::zero ? mask : torch::ones_like(mask));
}

Unprojected ProjectedAttention::attend_unprojected(NormedInput& rows, const torch::Tensor& mask) {
  check_layer_input(rows.x, mask, context_.width);
  const int64_t batch = rows.x.size(0), length = rows.x.size(1);
  const torch::Tensor mixed = mix_heads(rows, mask);
  check_attention_result(mixed, rows.x, {batch, context_.heads, length, context_.head_dim});
  return {.joined = mixed.transpose(1, 2).flatten(2), .output = output()};
}

torch::Tensor ProjectedAttention::mix_heads(NormedInput& rows, const torch::Tensor& mask) {
  std::vector<ops::LinearWeights> layers;
  for (const torch::nn::Linear& layer : {query_, key_, value_}) {
    if (!layer.is_empty()) layers.push_back(weights_of(layer));
  }
  const auto [y, x] = ops::linear(context_.kernels, rows.x, rows.norm, layers,
                                  computes_padding() ? torch::Tensor() : mask);
  rows.x = x;
  const torch::Tensor v = split_heads(y.back());
  if (layers.size() == 1) return attend(v, v, v, mask);
  const torch::Tensor q = at_positions(split_heads(y.front())),
                      k = layers.size() == 3 ? at_positions(split_heads(y[1])) : q;
  return attend(q, k, v, mask);
}

torch::Tensor ProjectedAttention::at_positions(const torch::Tensor& x) const {
  return context_.rotary_base > 0 ? ops::rotate(x, context_.rotary_base) : x;
}

ops::LinearWeights ProjectedAttention::weights_of(const torch::nn::Linear& layer) {
  // Operators read a bias in any case.
  return {.weight = layer->weight,
          .bias = layer->bias.defined()
                      ? layer->bias
                      : torch::zeros({layer->weight.size(0)}, layer->weight.options())};
}

torch::Tensor ProjectedAttention::split_heads(const torch::Tensor& joined) const {
  return joined.view({joined.size(0), joined.size(1), context_.heads, context_.head_dim})
      .transpose(1, 2);
}

Projections ProjectedAttention::projections() const { return projections_; }

torch::Tensor ProjectedAttention::project_value(const torch::Tensor& x) {
  return split_heads(value_->forward(x));
}

torch::Tensor ProjectedAttention::normed(const NormedInput& rows, const torch::Tensor& mask) const {
  if (rows.norm == nullptr) return rows.x;
  return ops::layer_norm(context_.kernels, rows.x, *rows.norm,
                         computes_padding() ? torch::Tensor() : mask);
}

torch::Tensor ProjectedAttention::with_padded_rows(const torch::Tensor& out, const torch::Tensor& q,
                                                   const torch::Tensor& k, const torch::Tensor& v,
                                                   const torch::Tensor& mask) const {
  if (context_.padded_rows == PaddedRows::zero) return out;
  return torch::where(mask.unsqueeze(1).unsqueeze(-1), out,
                      ops::uniform_attention(q, k, v).to(out.scalar_type()));
}

bool is_projection(const std::string& state_name) {
  const std::string module = state_name.substr(0, state_name.find('.'));
  if (module.size() == state_name.size()) return false;
  return module == "query" || module == "key" || module == "query_key" || module == "value" ||
         module == "output";
}

bool is_projection(const Attention& attention, const std::string& state_name) {
  return dynamic_cast<const ProjectedAttention*>(&attention) != nullptr &&
         is_projection(state_name);
}

}  // namespace lra
