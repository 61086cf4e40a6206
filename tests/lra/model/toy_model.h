// A model small enough to check by hand, for the tests of the model.
#pragma once

#include <string>

#include "lra/model/model.h"

namespace lra {

inline Task toy_task(int64_t inputs = 1) {
  Task task;
  task.name = "toy";
  task.classes = 3;
  task.vocabulary = 7;
  task.inputs = inputs;
  return task;
}

inline Config toy_config(const std::string& attention = "standard", double dropout = 0.1) {
  Config config;
  config.attention = parse_attention(attention);
  config.attention_options =
      attention_entry(config.attention.name).effective_options(config.attention.options);
  config.settings.input.length = 16;
  config.settings.model = {.layers = 2,
                           .width = 8,
                           .heads = 2,
                           .head_dim = 4,
                           .feed_forward = 16,
                           .classifier = 12,
                           .dropout = dropout};
  return config;
}

/// Three samples of up to 16 tokens, the same in every test.
struct ToyBatch {
  ToyBatch() {
    torch::manual_seed(1);
    tokens = torch::randint(1, 7, {3, 1, 16}, torch::kInt64);
  }
  torch::Tensor tokens;  // [3,1,16]
  torch::Tensor mask =
      (torch::arange(16) < torch::tensor({16, 9, 1}).unsqueeze(1)).unsqueeze(1);  // [3,1,16]
};

/// The largest difference of two elements.
inline double distance(const torch::Tensor& a, const torch::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

}  // namespace lra
