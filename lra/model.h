// The model of the benchmark: a small pre-norm encoder over any attention, mean pooling and a
// classifier.
//
// Source: the Nyströmformer LRA recipe (Xiong et al., AAAI 2021): embedding + learned positions,
// blocks x + drop(attention(norm(x))), x + mlp(norm(x)), a last LayerNorm, output times mask, mean,
// Linear-ReLU-Linear. Two inputs (Retrieval) share one encoder; the head then sees [x1, x2, x1*x2,
// x1-x2].
#pragma once

#include <torch/torch.h>

#include <memory>
#include <vector>

#include "attention_variants/attention.h"
#include "lra/protocol.h"
#include "lra/task.h"

namespace lra {

class Model : public torch::nn::Module {
 public:
  /// Initialises from torch's global generator: seed that first. Throws UsageError on options the
  /// variant does not know.
  Model(const Task& task, const Config& config);

  /// tokens [B,inputs,N] int64, mask [B,inputs,N] bool -> logits [B,classes], float32 or the
  /// autocast type.
  torch::Tensor forward(const torch::Tensor& tokens, const torch::Tensor& mask);

  /// The effective options of its attention layers.
  json attention_options() const { return attentions_.front()->options(); }

  /// What each attention layer is given for these tokens, in the layers' order: [B*inputs,N,D]
  /// after its norm. For a look inside trained models.
  std::vector<torch::Tensor> attention_inputs(const torch::Tensor& tokens,
                                              const torch::Tensor& mask);

  const std::vector<std::shared_ptr<Attention>>& attentions() const { return attentions_; }

  int64_t parameter_count() const;

 private:
  // tokens and mask [B,inputs,N] through all layers: [B*inputs,N,D] before the last norm. `seen`,
  // where not null, gets what each attention layer is given.
  torch::Tensor encode(const torch::Tensor& tokens, const torch::Tensor& mask,
                       std::vector<torch::Tensor>* seen);
  torch::Tensor attention(Attention& layer, const torch::Tensor& x,
                          const torch::Tensor& mask) const;

  ModelOptions options_;
  int64_t inputs_;
  torch::nn::Embedding tokens_{nullptr}, positions_{nullptr};
  torch::nn::Dropout dropout_{nullptr};
  std::vector<std::shared_ptr<Attention>> attentions_;
  std::vector<torch::nn::LayerNorm> attention_norms_, feed_forward_norms_;
  std::vector<torch::nn::Sequential> feed_forwards_;
  torch::nn::LayerNorm final_norm_{nullptr};
  torch::nn::Sequential classifier_{nullptr};
};

}  // namespace lra
