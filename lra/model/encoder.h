// From tokens to the rows that the first layer reads.
#pragma once

#include <vector>

#include "attention_variants/attention.h"
#include "attention_variants/torch.h"
#include "lra/config/settings.h"
#include "lra/data/task.h"

namespace lra {

/// Sinusoidal positions [length,width], width even, in float32: columns 2i and 2i + 1 of row p are
/// sin and cos of p / 10000^(2i / width) (Vaswani et al. 2017, section 3.5).
torch::Tensor sinusoidal_positions(int64_t length, int64_t width);

/// Registers its parameters in the model, as `tokens` or `pixels`, `positions` or
/// `fixed_positions`, `cls`, and `hidden`, and initialises them from torch's global generator.
class Encoder {
 public:
  /// `length`: positions of the longest input, that of the class token among them. `hides`: the
  /// first id beyond the vocabulary is a token that is hidden, for which a learned vector stands.
  /// Throws c10::Error where the encoder reads pixels and the task has none.
  Encoder(torch::nn::Module& model, const Task& task, const ModelOptions& options, int64_t length,
          bool hides);

  /// ids [B,N] int64, or [B,N,C] of pixels of several channels -> dropout([cls, encoded ids] +
  /// positions), [B,L,D]; blocks s4 and s5 have no dropout here. Rows where `real` [B,N] is false
  /// may be anything finite; undefined: none may.
  torch::Tensor forward(Kernels kernels, const torch::Tensor& ids, const torch::Tensor& real,
                        bool training) const;

  bool has_cls() const { return cls_.defined(); }
  /// Of Encoding::embedding: [V,D].
  const torch::Tensor& token_vectors() const { return tokens_->weight; }

 private:
  torch::Tensor table() const;
  torch::Tensor content(const torch::Tensor& ids) const;

  ModelOptions options_;
  double dropout_;
  torch::nn::Embedding tokens_{nullptr}, positions_{nullptr};
  torch::nn::Linear pixels_{nullptr};  // [D,C]
  std::vector<double> means_, sds_;    // of its channels
  torch::Tensor cls_;                  // [D]; undefined without a class token
  int64_t hidden_id_;                  // ids from it on are hidden
  torch::Tensor hidden_;               // [D]; undefined where none are
  torch::Tensor fixed_positions_;      // [L,D]; undefined where there are no such
};

}  // namespace lra
