// What the model is made of beside its attention: the feed-forward block, and linear layers over
// the rows of one tensor. Sizes of the benchmark's own model: sequences of 2048, D = 64, F = 128.
#include "attention_variants/ops/embedding.h"
#include "attention_variants/ops/feed_forward.h"
#include "attention_variants/ops/layer_norm.h"
#include "attention_variants/ops/linear.h"
#include "tests/bench/bench.h"

namespace lra {
namespace {

constexpr int64_t kLength = 2048, kModel = 64, kHidden = 128, kVocabulary = 16;
constexpr double kDropout = 0.1;
const std::vector<int64_t> kBatches = {8, 32};

double rows_of(int64_t batch) { return static_cast<double>(batch * kLength); }

torch::Tensor weight(int64_t out, int64_t in) { return torch::randn({out, in}) / 8; }

BenchWork feed_forward_work(int64_t batch, Kernels kernels) {
  const auto x = torch::randn({batch, kLength, kModel});
  const ops::FeedForwardWeights w{.norm_weight = torch::ones({kModel}),
                                  .norm_bias = torch::zeros({kModel}),
                                  .in_weight = weight(kHidden, kModel),
                                  .in_bias = torch::zeros({kHidden}),
                                  .out_weight = weight(kModel, kHidden),
                                  .out_bias = torch::zeros({kModel})};
  const auto formula = [=](bool training) {
    namespace F = torch::nn::functional;
    const auto normal =
        F::layer_norm(x, F::LayerNormFuncOptions({kModel}).weight(w.norm_weight).bias(w.norm_bias));
    const auto hidden = torch::dropout(torch::gelu(torch::linear(normal, w.in_weight, w.in_bias)),
                                       kDropout, training);
    return x + torch::dropout(torch::linear(hidden, w.out_weight, w.out_bias), kDropout, training);
  };
  const auto block = [=](bool training) {
    return ops::feed_forward(kernels, x, w, kDropout, training);
  };
  return differentiable(
      kernels == Kernels::fused ? std::function<torch::Tensor(bool)>(block) : formula,
      {x, w.norm_weight, w.norm_bias, w.in_weight, w.in_bias, w.out_weight, w.out_bias},
      rows_of(batch) * 4 * kModel * kHidden);
}

// As the query, key and value of a layer, of normalised rows, joined so that one gradient reaches
// all three.
BenchWork projections_work(int64_t batch, Kernels kernels) {
  const auto x = torch::randn({batch, kLength, kModel});
  const ops::RowNorm norm{.weight = torch::ones({kModel}), .bias = torch::zeros({kModel})};
  std::vector<ops::LinearWeights> layers(3);
  std::vector<torch::Tensor> leaves = {x, norm.weight, norm.bias};
  for (ops::LinearWeights& layer : layers) {
    layer = {.weight = weight(kModel, kModel), .bias = torch::zeros({kModel})};
    leaves.insert(leaves.end(), {layer.weight, layer.bias});
  }
  return differentiable(
      [=](bool) {
        if (kernels == Kernels::fused) {
          return torch::cat(linear(kernels, x, &norm, layers).y, -1);
        }
        const auto normal = torch::layer_norm(x, {kModel}, norm.weight, norm.bias);
        std::vector<torch::Tensor> parts;
        for (const ops::LinearWeights& layer : layers)
          parts.push_back(torch::linear(normal, layer.weight, layer.bias));
        return torch::cat(parts, -1);
      },
      leaves, rows_of(batch) * 3 * 2 * kModel * kModel);
}

BenchWork residual_work(int64_t batch, Kernels kernels) {
  const auto x = torch::randn({batch, kLength, kModel}), y = torch::randn_like(x);
  return differentiable(
      [=](bool training) {
        return kernels == Kernels::fused ? ops::add_dropped_out(kernels, x, y, kDropout, training)
                                         : x + torch::dropout(y, kDropout, training);
      },
      {x, y}, static_cast<double>(x.numel()));  // the additions: there is nothing else
}

// As after an attention.
BenchWork projection_work(int64_t batch, Kernels kernels) {
  const auto x = torch::randn({batch, kLength, kModel}), y = torch::randn_like(x);
  const ops::LinearWeights layer{.weight = weight(kModel, kModel), .bias = torch::zeros({kModel})};
  return differentiable(
      [=](bool training) {
        return kernels == Kernels::fused
                   ? ops::add_projected(kernels, x, y, layer, kDropout, training)
                   : x + torch::dropout(torch::linear(y, layer.weight, layer.bias), kDropout,
                                        training);
      },
      {x, y, layer.weight, layer.bias}, rows_of(batch) * 2 * kModel * kModel);
}

BenchWork norm_work(int64_t batch, Kernels kernels) {
  const auto x = torch::randn({batch, kLength, kModel}), of = torch::ones({kModel}),
             bias = torch::zeros({kModel});
  return differentiable(
      [=](bool) {
        return kernels == Kernels::fused ? ops::layer_norm(kernels, x, {.weight = of, .bias = bias})
                                         : torch::layer_norm(x, {kModel}, of, bias);
      },
      {x, of, bias}, 7 * static_cast<double>(x.numel()));  // a mean, a variance, what is written
}

BenchWork embedding_work(int64_t batch, Kernels kernels) {
  const auto ids = torch::randint(0, kVocabulary, {batch, kLength});
  const ops::EmbeddingTables tables{.tokens = torch::randn({kVocabulary, kModel}),
                                    .positions = torch::randn({kLength, kModel})};
  return differentiable(
      [=](bool training) {
        return kernels == Kernels::fused
                   ? ops::embed(kernels, ids, tables, kDropout, training)
                   : torch::dropout(torch::embedding(tables.tokens, ids) + tables.positions,
                                    kDropout, training);
      },
      {tables.tokens, tables.positions}, rows_of(batch) * kModel);  // the additions
}

}  // namespace

std::vector<BenchOperator> model_operators() {
  return {
      {.name = "FeedForward", .size_name = "B", .sizes = kBatches, .make = feed_forward_work},
      {.name = "ThreeProjections", .size_name = "B", .sizes = kBatches, .make = projections_work},
      {.name = "ProjectionAndResidual",
       .size_name = "B",
       .sizes = kBatches,
       .make = projection_work},
      {.name = "LayerNorm", .size_name = "B", .sizes = kBatches, .make = norm_work},
      {.name = "Embedding", .size_name = "B", .sizes = kBatches, .make = embedding_work},
      {.name = "DropoutAndResidual", .size_name = "B", .sizes = kBatches, .make = residual_work}};
}

}  // namespace lra
