#include "lra/model/blocks/gated_block.h"

#include "attention_variants/ops/dropout.h"
#include "attention_variants/ops/gates.h"
#include "lra/model/blocks/rows.h"

namespace lra {

GatedBlock::GatedBlock(const ModelOptions& options, std::shared_ptr<Attention> attention)
    : Block(std::move(attention)),
      s4_(options.block == BlockKind::s4),
      gate_(s4_ ? Gate::glu : options.gate),
      norm_(options) {
  const int64_t width = options.width;
  if (gate_ == Gate::full_glu) value_ = torch::nn::Linear(width, width);
  if (gate_ != Gate::activation)
    weight_ = torch::nn::Linear(width, gate_ == Gate::glu ? 2 * width : width);
}

void GatedBlock::register_in(torch::nn::Module& model, const std::string& prefix) const {
  norm_.register_in(model, prefix + "norm");
  model.register_module(prefix + "attention", attention());
  if (value_) model.register_module(prefix + "value", value_);
  if (weight_) model.register_module(prefix + "gate", weight_);
}

std::vector<torch::Tensor> GatedBlock::linear_parameters() const {
  std::vector<torch::Tensor> all;
  for (const torch::nn::Linear& layer : {value_, weight_}) {
    if (layer) all.insert(all.end(), {layer->weight, layer->bias});
  }
  return all;
}

torch::Tensor GatedBlock::forward(const torch::Tensor& x, const BlockPass& pass,
                                  torch::Tensor* given) const {
  const ModelOptions& o = pass.options;
  const bool pre = o.norm == NormPlacement::pre;
  const torch::Tensor read = pre ? norm_.forward(x, pass) : x;
  if (given != nullptr) *given = read;
  torch::Tensor y = run_attention(*attention(), pass, read, /*gated=*/false).y;
  if (s4_) y = ops::philox_dropout(y, o.dropout, pass.training);
  const torch::Tensor sum = x + gated(y, pass);
  return pre ? sum : norm_.forward(sum, pass);
}

torch::Tensor GatedBlock::gated(const torch::Tensor& y, const BlockPass& pass) const {
  const auto dropped = [&](const torch::Tensor& rows) {
    return drop(pass.options, pass.training, rows);
  };
  const torch::Tensor g = dropped(ops::gelu(pass.kernels, y, pass.options.gelu));
  const auto times_sigmoid = [&](const torch::Tensor& value, const torch::Tensor& gate) {
    return ops::sigmoid_gate(pass.kernels, value, gate);
  };
  if (gate_ == Gate::activation) return g;
  const torch::Tensor gate = project(pass, g, *weight_);
  switch (gate_) {
    case Gate::glu:
      return dropped(ops::glu(pass.kernels, gate));
    case Gate::full_glu:
      return dropped(times_sigmoid(project(pass, g, *value_), gate));
    case Gate::half_glu1:
      return dropped(times_sigmoid(g, gate));
    default:
      return dropped(times_sigmoid(y, gate));
  }
}

}  // namespace lra
