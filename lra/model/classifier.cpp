#include "lra/model/classifier.h"

#include <cmath>

#include "attention_variants/ops/dropout.h"
#include "attention_variants/projected_attention.h"
#include "lra/model/blocks/rows.h"

namespace lra {
namespace {

using Start = void (*)(const torch::Tensor& parameter);

void start_at_zero(const torch::Tensor& bias) { bias.zero_(); }

void start_near_zero(const torch::Tensor& bias) { bias.normal_(0, 1e-6); }

void start_small(const torch::Tensor& weight) { weight.normal_(0, 0.02); }

void start_by_xavier(const torch::Tensor& weight) { torch::nn::init::xavier_uniform_(weight); }

// Of standard deviation 1/√fan-in after it is cut at two of a normal distribution's, weight
// [out,in].
void start_truncated(const torch::Tensor& weight) {
  const double deviation = 1 / std::sqrt(static_cast<double>(weight.size(1))) / 0.87962566103423978;
  const double tail = std::erf(std::sqrt(2.0));
  weight.uniform_(-tail, tail).erfinv_().mul_(std::sqrt(2.0) * deviation);
}

void start(const torch::Tensor& parameter, Start weight, Start bias) {
  if (parameter.dim() == 2) weight(parameter);
  if (parameter.dim() == 1) bias(parameter);
}

// Weights and biases of the blocks' linear layers, and weights of the head, whose biases start at
// zero.
struct Starts {
  Start weight, bias, head;
};

Starts starts_of(Init init) {
  if (init == Init::flax) return {start_by_xavier, start_near_zero, start_truncated};
  if (init == Init::mega) return {start_small, start_at_zero, start_by_xavier};
  return {start_truncated, start_at_zero, start_truncated};
}

}  // namespace

torch::nn::Sequential make_classifier(const ModelOptions& o, int64_t inputs, int64_t classes) {
  namespace nn = torch::nn;
  const bool concat = inputs == 2 && o.pair == PairForm::concat;
  const int64_t features = o.width * (inputs == 1 ? 1 : concat ? 2 : 4);
  if (o.head == Head::tied) return {};  // the embedding's own weights
  if (o.head == Head::linear) return nn::Sequential(nn::Linear(features, classes));
  if (o.head == Head::gelu) {
    return nn::Sequential(nn::Linear(features, o.classifier), gelu_module(o),
                          nn::Linear(o.classifier, classes));
  }
  if (o.head == Head::mega) {
    return nn::Sequential(nn::Linear(features, o.classifier), ops::Dropout(o.dropout),
                          gelu_module(o),
                          nn::Linear(nn::LinearOptions(o.classifier, classes).bias(false)));
  }
  if (!concat) {
    return nn::Sequential(nn::Linear(features, o.classifier), nn::ReLU(),
                          nn::Linear(o.classifier, classes));
  }
  return nn::Sequential(nn::Linear(features, o.classifier), nn::ReLU(),
                        nn::Linear(o.classifier, o.classifier / 2), nn::ReLU(),
                        nn::Linear(o.classifier / 2, classes));
}

void start_weights(Init init, const std::vector<std::unique_ptr<Block>>& layers,
                   torch::nn::Sequential& classifier) {
  if (init == Init::torch) return;
  const torch::NoGradGuard no_grad;
  const Starts starts = starts_of(init);
  for (const auto& layer : layers) {
    for (const auto& item : layer->attention()->named_parameters()) {
      if (init == Init::flax && is_projection(item.key()))
        start(item.value(), start_by_xavier, start_at_zero);
    }
    for (const torch::Tensor& parameter : layer->linear_parameters())
      start(parameter, starts.weight, starts.bias);
  }
  for (const torch::Tensor& parameter : classifier->parameters())
    start(parameter, starts.head, start_at_zero);
}

}  // namespace lra
