// Own kernels leave padded rows out where nothing reads them; where something does, they may not.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/lra/model/toy_model.h"

namespace lra {
namespace {

struct PaddedBatch : ToyBatch {
  PaddedBatch() {
    mask[1][0] = torch::arange(16).sub(4).abs().le(2);  // as pixels of 0 around others
    mask[2].zero_();                                    // and a black picture
  }
};

using Gradients = std::map<std::string, torch::Tensor>;

Gradients gradients_of(Config config, Kernels kernels) {
  const PaddedBatch batch;
  config.settings.kernels = kernels;
  torch::manual_seed(2);
  Model model(toy_task(), config);
  if (config.settings.input.mask == InputMask::length) model.take_any_mask();
  for (torch::Tensor& parameter : model.parameters()) {
    const torch::NoGradGuard no_grad;
    if (parameter.dim() == 1) parameter.add_(0.3 * torch::randn_like(parameter));  // biases, too
  }
  const torch::Tensor logits = model.forward(batch.tokens, batch.mask);
  torch::nn::functional::cross_entropy(logits, torch::tensor({0, 1, 2})).backward();
  Gradients gradients{{"logits", logits.detach()}};
  for (const auto& item : model.named_parameters()) {
    if (item.value().grad().defined()) gradients[item.key()] = item.value().grad();
  }
  return gradients;
}

// In every way that a model may read what its layers make of padding, and in those that do not.
void expect_alike(const std::string& attention, InputMask mask, ops::PaddedRows padded_rows,
                  NormPlacement norm) {
  for (const Pooling pooling : all_values<Pooling>()) {
    for (const MeanOver over : all_values<MeanOver>()) {
      for (const ClsMask cls : all_values<ClsMask>()) {
        if (pooling != Pooling::mean && over != MeanOver::real) continue;
        if (pooling != Pooling::cls && cls != ClsMask::real) continue;
        Config config = toy_config(attention, 0);
        config.settings.input.mask = mask;
        ModelOptions& o = config.settings.model;
        o.pooling = pooling;
        o.mean_over = over;
        o.cls_mask = cls;
        o.norm = norm;
        o.padded_rows = padded_rows;
        const Gradients fused = gradients_of(config, Kernels::fused),
                        expected = gradients_of(config, Kernels::reference);
        ASSERT_EQ(fused.size(), expected.size());
        for (const auto& [name, gradient] : expected) {
          const double scale = std::max(1e-3, gradient.abs().max().item<double>());
          EXPECT_LT((fused.at(name) - gradient).abs().max().item<double>() / scale, 1e-4)
              << fmt::format("{} {} {} {} {} {}: {}", attention, to_string(padded_rows),
                             to_string(norm), to_string(pooling), to_string(over), to_string(cls),
                             name);
        }
      }
    }
  }
}

TEST(PaddingGradientTest, OwnKernelsGiveThatOfTheReference) {
  for (const char* attention : {"standard", "linear", "nystrom[num_landmarks=4]"}) {
    for (const ops::PaddedRows rows : all_values<ops::PaddedRows>()) {
      for (const NormPlacement norm : all_values<NormPlacement>()) {
        // By pixels of 0, and as the caller says.
        for (const InputMask mask : {InputMask::nonzero, InputMask::length})
          expect_alike(attention, mask, rows, norm);
      }
    }
  }
}

// A padded row of an attention is zero, and so it joins the residual where it is read.
TEST(PaddingGradientTest, APaddedRowOfTheAttentionIsNoBias) {
  Config config = toy_config("standard", 0);
  config.settings.model.mean_over = MeanOver::all;
  for (const Kernels kernels : {Kernels::fused, Kernels::reference}) {
    config.settings.kernels = kernels;
    torch::manual_seed(2);
    Model model(toy_task(), config);
    const PaddedBatch batch;
    const auto logits = [&] {
      const torch::NoGradGuard no_grad;
      return model.forward(batch.tokens.narrow(0, 0, 1),
                           torch::zeros_like(batch.mask[0]).unsqueeze(0));
    };
    model.eval();
    const torch::Tensor before = logits();
    for (const auto& item : model.named_parameters()) {
      const torch::NoGradGuard no_grad;
      if (item.key().ends_with("attention.output.bias")) item.value().add_(1);
    }
    EXPECT_TRUE(torch::equal(before, logits())) << to_string(kernels);
  }
}

}  // namespace
}  // namespace lra
