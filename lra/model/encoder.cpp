#include "lra/model/encoder.h"

#include <cmath>

#include "attention_variants/ops/embedding.h"
#include "lra/model/blocks/rows.h"

namespace lra {
namespace {

namespace nn = torch::nn;

nn::Linear pixel_layer(const ModelOptions& options, int64_t channels) {
  nn::Linear layer(channels, options.width);
  if (options.encoder == Encoding::real) {
    nn::init::normal_(layer->weight, 0.0, 1.0);
    nn::init::normal_(layer->bias, 0.0, 0.1);
  }
  return layer;
}

}  // namespace

torch::Tensor sinusoidal_positions(int64_t length, int64_t width) {
  TORCH_CHECK(length >= 0 && width > 0 && width % 2 == 0,
              "sinusoidal positions should have an even width, not [", length, ",", width, "]");
  // In float64: the angles reach the length, and float32 has no digits left for their fractions.
  const auto column = torch::arange(0, width, 2, torch::kDouble);
  const auto rate = (column * (-std::log(10000.0) / static_cast<double>(width))).exp();
  const auto angle = torch::arange(length, torch::kDouble).unsqueeze(1) * rate;  // [length,width/2]
  return torch::stack({angle.sin(), angle.cos()}, -1).flatten(1).to(torch::kFloat32);
}

Encoder::Encoder(nn::Module& model, const Task& task, const ModelOptions& o, int64_t length,
                 bool hides)
    : options_(o),
      dropout_(o.block == BlockKind::s4 || o.block == BlockKind::s5 ? 0 : o.dropout),
      hidden_id_(task.vocabulary) {
  TORCH_CHECK(o.encoder == Encoding::embedding || task.image, "task ", task.name, " has no pixels");
  TORCH_CHECK(o.encoder != Encoding::embedding || task.channels == 1,
              "an embedding reads one id a position, not ", task.channels);
  const auto by_channel = [&](const std::vector<double>& own, double of_all) {
    const auto count = static_cast<size_t>(task.channels);
    TORCH_CHECK(own.empty() || own.size() == count, "there are ", count, " channels, not ",
                own.size());
    return own.empty() ? std::vector<double>(count, of_all) : own;
  };
  means_ = by_channel(o.pixel_means, o.pixel_mean);
  sds_ = by_channel(o.pixel_sds, o.pixel_sd);
  if (o.encoder == Encoding::embedding) {
    tokens_ = model.register_module("tokens", nn::Embedding(task.vocabulary, o.width));
  } else {
    pixels_ = model.register_module("pixels", pixel_layer(o, task.channels));
  }
  if (o.positions == Positions::learned)
    positions_ = model.register_module("positions", nn::Embedding(length, o.width));
  if (o.positions == Positions::sinusoidal) {
    fixed_positions_ =
        model.register_buffer("fixed_positions", sinusoidal_positions(length, o.width));
  }
  if (o.pooling == Pooling::cls) cls_ = model.register_parameter("cls", torch::zeros({o.width}));
  if (hides) hidden_ = model.register_parameter("hidden", torch::zeros({o.width}));
  if (tokens_) nn::init::normal_(tokens_->weight, 0.0, o.embedding_sd);
  if (positions_) nn::init::normal_(positions_->weight, 0.0, o.position_sd);
  if (tokens_ && hides) nn::init::normal_(hidden_, 0.0, o.embedding_sd);
}

// Of an embedding: the vectors of all ids, [V,D], or [V + 1,D] with that of hidden tokens.
torch::Tensor Encoder::table() const {
  return hidden_.defined() ? torch::cat({tokens_->weight, hidden_.unsqueeze(0)}) : tokens_->weight;
}

torch::Tensor Encoder::content(const torch::Tensor& ids) const {
  if (tokens_) return torch::embedding(table(), ids);
  // Channel by channel: a product of matrices would be rounded to bfloat16 by autocast.
  torch::Tensor sum;
  for (int64_t c = 0; c < pixels_->weight.size(1); ++c) {
    const torch::Tensor of_channel = ids.dim() == 2 ? ids : ids.select(2, c);
    const auto at = static_cast<size_t>(c);
    const torch::Tensor values =
        (of_channel.to(pixels_->weight.scalar_type()) / 255 - means_[at]) / sds_[at];
    const torch::Tensor product = values.unsqueeze(-1) * pixels_->weight.select(1, c);
    sum = sum.defined() ? sum + product : product;
  }
  sum = sum + pixels_->bias;
  return hidden_.defined() ? torch::where(ids.ge(hidden_id_).unsqueeze(-1), hidden_, sum) : sum;
}

torch::Tensor Encoder::forward(Kernels kernels, const torch::Tensor& ids, const torch::Tensor& real,
                               bool training) const {
  const torch::Tensor positions = positions_ ? positions_->weight : fixed_positions_;
  if (tokens_ && positions.defined() && options_.dropout_kind == DropoutKind::plain) {
    return ops::embed(kernels, ids, {.tokens = table(), .positions = positions, .first = cls_},
                      dropout_, training, has_cls() ? torch::Tensor() : real);
  }
  torch::Tensor x = content(ids);
  if (has_cls()) x = torch::cat({cls_.expand({x.size(0), 1, -1}), x}, 1);
  if (positions.defined()) x = x + positions.narrow(0, 0, x.size(1));
  return dropout_ == 0 ? x : drop(options_, training, x);
}

}  // namespace lra
