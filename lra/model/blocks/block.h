// A layer of the model: an attention and what stands around it, of one of several recipes.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "attention_variants/attention.h"
#include "attention_variants/torch.h"
#include "lra/config/settings.h"

namespace lra {

/// How a pass runs, the same for all layers.
struct BlockPass {
  const ModelOptions& options;
  Kernels kernels = Kernels::fused;
  bool training = false;
  torch::Tensor mask;  // [B,L] bool: the tokens
  // [B,L] bool: rows where it is false are anything finite; undefined: none are.
  torch::Tensor real;
  // Whether what the layers make of rows where mask is false is read, and is part of the gradient.
  bool reads_padding = false;
};

class Block {
 public:
  explicit Block(std::shared_ptr<Attention> attention) : attention_(std::move(attention)) {}
  virtual ~Block() = default;
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  /// x [B,L,D] -> [B,L,D]. `given`, where not null, gets what the attention is given.
  virtual torch::Tensor forward(const torch::Tensor& x, const BlockPass& pass,
                                torch::Tensor* given) const = 0;

  /// Registers its modules in the model, under names that begin with `prefix`: a block is no module
  /// of its own, so that checkpoints keep the names that they have had from the start.
  virtual void register_in(torch::nn::Module& model, const std::string& prefix) const = 0;

  /// Weights [out,in] and biases of the linear layers beside the attention, in their order.
  virtual std::vector<torch::Tensor> linear_parameters() const = 0;

  const std::shared_ptr<Attention>& attention() const { return attention_; }

 private:
  std::shared_ptr<Attention> attention_;
};

/// That of `options.block`. Initialises from torch's global generator.
std::unique_ptr<Block> make_block(const ModelOptions& options,
                                  std::shared_ptr<Attention> attention);

}  // namespace lra
