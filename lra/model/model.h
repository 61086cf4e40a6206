// The model of the benchmark: an encoder, layers of one block (lra/model/blocks) over any
// attention, pooling and a classifier.
//
// Source of the block transformer: the Nyströmformer LRA recipe (Xiong et al., AAAI 2021):
// embedding + learned positions, blocks x + drop(attention(norm(x))), x + mlp(norm(x)), a last
// LayerNorm, output times mask, mean, Linear-ReLU-Linear. Two inputs (Retrieval) share one encoder;
// the head then sees [x1, x2, x1*x2, x1-x2]. And of LRA's own models (Tay et al., ICLR 2021;
// lra_benchmarks/models/layers): fixed positions after the embedding, and a class token. That one
// is a learned vector, zero at the start, before the tokens. It is attended to as a token, so that
// the layers see N + 1 positions, and it counts as none: the length of an input, its mask and the
// mean over it know the tokens alone.
//
// Where the objective is tokens of its inputs (lra/data/objective.h), nothing is pooled: the head
// reads rows of tokens, and is one linear layer over the vocabulary, or tied.
#pragma once

#include <memory>
#include <vector>

#include "attention_variants/attention.h"
#include "attention_variants/torch.h"
#include "lra/config/protocol.h"
#include "lra/data/task.h"
#include "lra/model/blocks/block.h"
#include "lra/model/blocks/norm.h"
#include "lra/model/encoder.h"

namespace lra {

class Model : public torch::nn::Module {
 public:
  /// Initialises from torch's global generator: seed that first. Throws UsageError on options the
  /// variant does not know.
  Model(const Task& task, const Config& config);

  /// tokens [B,inputs,N] int64, mask [B,inputs,N] bool, N at most input.length; of colour images
  /// [B,channels,N] in their place, the mask of all channels being that of the first -> logits
  /// [B,classes], float32 or the autocast type. Where labels stand at positions: logits [L,classes]
  /// at `places` [L] int64 alone, of the B*inputs*N positions counted through, or
  /// [B*inputs,N,classes] where that is undefined.
  torch::Tensor forward(const torch::Tensor& tokens, const torch::Tensor& mask,
                        const torch::Tensor& places = {});

  /// From here on masks are a caller's own: the first token, or all of a sample, may be padding,
  /// which poolings read then.
  void take_any_mask() { any_is_padding_ = true; }

  /// The effective options of its attention layers.
  json attention_options() const { return layers_.front()->attention()->options(); }

  /// What each attention layer is given for these tokens, in the layers' order: [B*inputs,N,D],
  /// without the class token. For a look inside trained models.
  std::vector<torch::Tensor> attention_inputs(const torch::Tensor& tokens,
                                              const torch::Tensor& mask);

  /// In the layers' order.
  std::vector<std::shared_ptr<Attention>> attentions() const;

  /// Whether its logits are the same, but for rounding, however far inputs are padded.
  bool length_invariant() const;

  /// Whether its attention is softmax attention over all positions, at its inputs' full length
  /// (Attention::sees_all), though it is another by name.
  bool sees_all() const;

  /// Whether a training step may be recorded as a CUDA graph: all of its attentions say so.
  bool capturable() const;

  int64_t parameter_count() const;

  /// Floating-point operations (a multiply-add is 2) of one forward() of `batch` samples of
  /// `length` tokens: the products of the attention layers, the feed-forward blocks and the head,
  /// which, where positions have the labels, reads the `labels` of the batch. An embedding is
  /// looked up, and pointwise work is not counted. -1 where the variant has no account.
  int64_t flops(int64_t batch, int64_t length, int64_t labels = 0) const;

  /// Registered names of the parameters that a state-space recipe trains at a rate of their own:
  /// Attention::slow_parameters() of all layers.
  std::vector<std::string> slow_parameters() const;

 private:
  // What a pass of all layers gives: x [B*inputs,L,D] before the last norm, with L = N, or N + 1
  // and the class token in front.
  struct Encoded {
    torch::Tensor x;
    BlockPass pass;
  };
  // tokens and mask as of forward(). `seen`, where not null, gets what each attention layer is
  // given.
  Encoded encode(const torch::Tensor& tokens, const torch::Tensor& mask,
                 std::vector<torch::Tensor>* seen);
  // Where labels stand at positions: forward() behind the layers.
  torch::Tensor classify(const Encoded& encoded, const torch::Tensor& places);
  torch::Tensor mask_of_inputs(const torch::Tensor& mask) const;  // -> [B*inputs,N]
  void make_layers(const Config& config, int64_t length);
  bool reads_padding() const;

  ModelOptions options_;
  Kernels kernels_;
  int64_t inputs_, channels_, length_;
  bool any_is_padding_;  // the first token, and all of them, may be padding, as pixels 0 are
  bool masked_;          // false: padding is a token like others
  bool at_positions_;    // labels stand there, or are tokens
  Encoder encoder_;
  std::vector<std::unique_ptr<Block>> layers_;
  Norm final_norm_;  // none where model.norm is "post", nor in block s5
  torch::nn::Sequential classifier_{nullptr};
};

}  // namespace lra
