// Where blocks drop. Mega's layer: once over what its attention gates, and once over its
// feed-forward block, as fairseq/modules/moving_average_gated_attention.py and
// normalized_feedforward_network.py of facebookresearch/mega do.
#include <gtest/gtest.h>

#include "attention_variants/registry.h"
#include "lra/model/blocks/block.h"

namespace lra::dropping {
namespace {

constexpr int64_t kWidth = 6;

struct DroppingBlock {
  DroppingBlock(BlockKind kind, const std::string& attention, int64_t feed_forward) {
    options.block = kind;
    options.norm_kind = NormKind::scale;
    options.width = kWidth;
    options.feed_forward = feed_forward;
    options.dropout = 0.5;
    options.gate = Gate::glu;
    torch::manual_seed(5);
    block = make_block(
        options,
        make_attention(
            parse_attention(attention),
            {.width = kWidth, .heads = 1, .head_dim = kWidth, .max_length = 64, .dropout = 0.5}));
    block->register_in(modules, "");
    x = torch::randn({32, 64, kWidth});
  }

  // In training; `given` gets what the attention is given.
  torch::Tensor forward(torch::Tensor* given = nullptr) const {
    torch::manual_seed(11);
    return block->forward(x, {.options = options, .training = true, .mask = mask, .real = mask},
                          given);
  }

  ModelOptions options;
  std::unique_ptr<Block> block;
  torch::nn::Module modules;
  torch::Tensor x, mask = torch::ones({32, 64}, torch::kBool);
};

double share_of(const torch::Tensor& found) {
  return found.to(torch::kDouble).mean().item<double>();
}

// x + gate (dropout(h) - x) is x (1 - gate) where h is dropped.
TEST(BlockDropoutTest, DropsOnceWhatMegaGates) {
  const DroppingBlock made(BlockKind::mega, "mega[z=4,hidden=5]", /*feed_forward=*/0);
  torch::Tensor normed;
  const torch::Tensor out = made.forward(&normed);
  torch::manual_seed(11);
  const torch::Tensor gate = made.block->attention()->forward_gated(normed, made.mask).gate;
  EXPECT_NEAR(share_of((out - made.x * (1 - gate)).abs().lt(1e-6)), 0.5, 0.04);
}

TEST(BlockDropoutTest, MegasFeedForwardHasNoneBehindItsActivation) {
  for (const BlockKind kind : {BlockKind::mega, BlockKind::transformer}) {
    DroppingBlock made(kind, "linear", kWidth);
    {
      const torch::NoGradGuard no_grad;
      auto parameters = made.modules.named_parameters();
      for (const char* name : {"attention.output.weight", "attention.output.bias"})
        parameters[name].zero_();
      parameters["feed_forward.3.weight"].copy_(torch::eye(kWidth));
      parameters["feed_forward.3.bias"].zero_();
    }
    EXPECT_NEAR(share_of(made.forward().eq(made.x)), kind == BlockKind::mega ? 0.5 : 0.75, 0.03)
        << to_string(kind);
  }
}

// S4's layer drops behind its convolution (s4block.py of state-spaces/s4), its activation and its
// gate, S5's behind the last two.
TEST(BlockDropoutTest, S4DropsBehindItsConvolutionToo) {
  for (const BlockKind kind : {BlockKind::s4, BlockKind::s5}) {
    DroppingBlock made(kind, "linear", /*feed_forward=*/0);
    {
      const torch::NoGradGuard no_grad;
      auto parameters = made.modules.named_parameters();
      parameters["attention.output.weight"].zero_();
      parameters["attention.output.bias"].fill_(1);
      torch::Tensor& gate = parameters["gate.weight"];
      gate.zero_().narrow(0, 0, kWidth).copy_(torch::eye(kWidth));
      parameters["gate.bias"].zero_();
    }
    EXPECT_NEAR(share_of(made.forward().eq(made.x)), kind == BlockKind::s4 ? 0.875 : 0.75, 0.03)
        << to_string(kind);
  }
}

}  // namespace
}  // namespace lra::dropping
