// The model's operators over rows.
#include "attention_variants/ops/dropout.h"
#include "attention_variants/ops/reference/operators.h"

namespace lra::ops::reference {
namespace {

// As torch::nn::Linear computes it, which rounds otherwise than torch::linear().
torch::Tensor linear_of(const torch::Tensor& x, const LinearWeights& layer) {
  return torch::nn::functional::linear(x, layer.weight, layer.bias);
}

torch::Tensor norm_of(const torch::Tensor& x, const RowNorm& norm) {
  return torch::layer_norm(x, {x.size(-1)}, norm.weight, norm.bias, norm.eps);
}

}  // namespace

LinearRows run(const LinearCall& call) {
  const torch::Tensor x = call.norm ? norm_of(call.x, *call.norm) : call.x;
  // The last layer first: gradients of x are added up in the opposite order.
  LinearRows rows{.y = std::vector<torch::Tensor>(call.layers.size()), .x = call.x};
  rows.y.back() = linear_of(x, call.layers.back());
  for (size_t i = 0; i + 1 < call.layers.size(); ++i) rows.y[i] = linear_of(x, call.layers[i]);
  return rows;
}

torch::Tensor run(const MaskedLinearCall& call) {
  return linear_of(call.x, call.layer).masked_fill(~call.mask.unsqueeze(-1), 0);
}

torch::Tensor run(const LayerNormCall& call) { return norm_of(call.x, call.norm); }

torch::Tensor run(const LayerNormMeanCall& call) {
  const torch::Tensor weight = call.mask.unsqueeze(-1).to(call.x.scalar_type());  // [B,N,1]
  return mean_of_rows((norm_of(call.x, call.norm) * weight).sum(1), call.mask, call.over);
}

torch::Tensor run(const FeedForwardCall& call) {
  const FeedForwardWeights& w = call.weights;
  const torch::Tensor x =
      w.norm_weight.numel() == 0
          ? call.x
          : norm_of(call.x, {.weight = w.norm_weight, .bias = w.norm_bias, .eps = w.norm_eps});
  const torch::Tensor hidden =
      philox_dropout(torch::gelu(linear_of(x, {.weight = w.in_weight, .bias = w.in_bias}),
                                 w.gelu == Gelu::tanh ? "tanh" : "none"),
                     call.dropout, call.training);
  return call.x + philox_dropout(linear_of(hidden, {.weight = w.out_weight, .bias = w.out_bias}),
                                 call.dropout, call.training);
}

torch::Tensor run(const AddProjectedCall& call) {
  torch::Tensor y = linear_of(call.y, call.layer);
  // The projection has a bias, so padded rows are zeroed once more.
  if (call.mask.defined()) y = y.masked_fill(~call.mask.unsqueeze(-1), 0);
  return call.x + philox_dropout(y, call.dropout, call.training);
}

torch::Tensor run(const AddDroppedOutCall& call) {
  return call.x + philox_dropout(call.y, call.dropout, call.training);
}

torch::Tensor run(const EmbeddingCall& call) {
  const auto& [tokens, positions, first] = call.tables;
  torch::Tensor x = torch::embedding(tokens, call.ids);
  if (first.defined()) x = torch::cat({first.to(x.scalar_type()).expand({x.size(0), 1, -1}), x}, 1);
  return philox_dropout(x + positions.slice(0, 0, x.size(1)), call.dropout, call.training);
}

torch::Tensor run(const DropoutCall& call) {
  return torch::dropout(call.x, call.p, /*train=*/true);
}

CrossEntropy run(const CrossEntropyCall& call) {
  constexpr auto kSum = at::Reduction::Sum;
  constexpr int64_t kIgnored = -100;  // LibTorch's default
  const torch::Tensor& labels = call.labels;
  const torch::Tensor log_shares = torch::log_softmax(call.logits, 1);
  const auto [loss, weight] = at::nll_loss_forward(log_shares, labels, {}, kSum, kIgnored);
  const torch::Tensor share =
      torch::full({}, 1.0F / static_cast<float>(call.count), loss.options());
  const torch::Tensor of_log_shares =
      at::nll_loss_backward(share, log_shares, labels, {}, kSum, kIgnored, weight);
  const torch::Tensor correct = (call.logits.argmax(-1) == labels).sum();
  return {.sums = torch::stack({loss.to(torch::kDouble), correct.to(torch::kDouble)}),
          .gradient = at::_log_softmax_backward_data(of_log_shares, log_shares, 1,
                                                     call.logits.scalar_type())};
}

}  // namespace lra::ops::reference
