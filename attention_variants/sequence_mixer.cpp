#include "attention_variants/sequence_mixer.h"

#include "attention_variants/ops/autocast.h"

namespace lra {

torch::Tensor SequenceMixer::forward(const torch::Tensor& x, const torch::Tensor& mask) {
  const auto [y, gate] = forward_gated(x, mask);
  // The gate is zero at padding, which zeroes no NaN.
  return gate.defined() ? gate * (y - x.masked_fill(mask.logical_not().unsqueeze(-1), 0)) : y;
}

GatedRows SequenceMixer::forward_gated(const torch::Tensor& x, const torch::Tensor& mask) {
  check_layer_input(x, mask, context_.width);
  if (x.size(0) == 0) return {.y = x.clone()};  // nothing to mix
  const ops::NoAutocast guard;
  // On a CPU it is known without waiting whether there is anything to fill.
  const bool whole = x.is_cpu() && mask.is_cpu() && mask.all().item<bool>();
  const torch::Tensor padded = mask.logical_not().unsqueeze(-1);  // [B,N,1]
  const auto filled = [&](const torch::Tensor& given) {
    return whole ? given : given.masked_fill(padded, 0);
  };
  const auto type = ops::wide_type(x.scalar_type());
  const torch::Tensor rows = filled(x).to(type);
  const GatedRows mixed = mix(rows, mask);
  check_attention_result(mixed.y, rows, x.sizes());
  if (mixed.gate.defined()) check_attention_result(mixed.gate, rows, x.sizes());
  const auto finished = [&](const torch::Tensor& given) {
    return given.defined() ? filled(given).to(x.scalar_type()) : given;
  };
  return {.y = finished(mixed.y), .gate = finished(mixed.gate)};
}

}  // namespace lra
