#include "harness/fidelity/measures.h"

#include "attention_variants/ops/padding.h"
#include "attention_variants/ops/reference/softmax_attention.h"

namespace lra::fidelity {

torch::Tensor exact_attention(const torch::Tensor& q, const torch::Tensor& k,
                              const torch::Tensor& v, const torch::Tensor& mask) {
  const auto wide = [](const torch::Tensor& x) { return x.to(torch::kDouble); };
  return ops::zero_padded_rows(ops::reference::softmax_attention(wide(q), wide(k), wide(v), mask),
                               mask);
}

FidelityInputs sample(const FidelityInputs& inputs, int64_t trial) {
  FidelityInputs one = inputs;
  for (torch::Tensor* x : {&one.q, &one.k, &one.v, &one.mask}) *x = x->narrow(0, trial, 1);
  return one;
}

std::vector<double> numbers(const torch::Tensor& x) {
  const torch::Tensor flat = x.to(torch::kDouble).cpu().contiguous().flatten();
  return {flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel()};
}

void append(std::vector<double>& to, const std::vector<double>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

std::vector<double> relative_errors(const torch::Tensor& x, const torch::Tensor& exact) {
  const torch::Tensor right = exact.to(torch::kDouble).flatten(1);
  return numbers((x.to(torch::kDouble).flatten(1) - right).norm(2, 1) / right.norm(2, 1));
}

}  // namespace lra::fidelity
