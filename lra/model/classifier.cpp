#include "lra/model/classifier.h"

#include <cmath>

#include "attention_variants/ops/dropout.h"
#include "attention_variants/projected_attention.h"

namespace lra {
namespace {

// Of standard deviation 1/√fan-in after it is cut at two of a normal distribution's, weight
// [out,in].
void start_truncated(torch::Tensor& weight) {
  const double deviation = 1 / std::sqrt(static_cast<double>(weight.size(1))) / 0.87962566103423978;
  const double tail = std::erf(std::sqrt(2.0));
  weight.uniform_(-tail, tail).erfinv_().mul_(std::sqrt(2.0) * deviation);
}

}  // namespace

torch::nn::Sequential make_classifier(const ModelOptions& o, int64_t inputs, int64_t classes) {
  namespace nn = torch::nn;
  const bool concat = inputs == 2 && o.pair == PairForm::concat;
  const int64_t features = o.width * (inputs == 1 ? 1 : concat ? 2 : 4);
  if (o.head == Head::tied) return {};  // the embedding's own weights
  if (o.head == Head::linear) return nn::Sequential(nn::Linear(features, classes));
  if (o.head == Head::gelu) {
    return nn::Sequential(nn::Linear(features, o.classifier), nn::GELU(),
                          nn::Linear(o.classifier, classes));
  }
  if (o.head == Head::mega) {
    return nn::Sequential(nn::Linear(features, o.classifier), nn::GELU(), ops::Dropout(o.dropout),
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

void start_as_flax(const std::vector<std::unique_ptr<Block>>& layers,
                   torch::nn::Sequential& classifier) {
  const torch::NoGradGuard no_grad;
  for (const auto& layer : layers) {
    for (auto& item : layer->attention()->named_parameters()) {
      if (!is_projection(item.key())) continue;
      if (item.value().dim() == 2) torch::nn::init::xavier_uniform_(item.value());
      if (item.value().dim() == 1) item.value().zero_();
    }
    for (auto& parameter : layer->linear_parameters()) {
      if (parameter.dim() == 2) torch::nn::init::xavier_uniform_(parameter);
      if (parameter.dim() == 1) parameter.normal_(0, 1e-6);
    }
  }
  for (auto& parameter : classifier->parameters()) {
    if (parameter.dim() == 2) start_truncated(parameter);
    if (parameter.dim() == 1) parameter.zero_();
  }
}

}  // namespace lra
