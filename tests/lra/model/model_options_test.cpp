// Class token, positions and norms of the model.
#include <gtest/gtest.h>

#include "attention_variants/base/files.h"
#include "attention_variants/ops/autocast.h"
#include "tests/lra/model/toy_model.h"

namespace lra {
namespace {

Config cls_config(const std::string& attention = "standard") {
  Config config = toy_config(attention, 0);
  config.settings.model.pooling = Pooling::cls;
  config.settings.model.embedding_sd = 1;
  return config;
}

std::unique_ptr<Model> make_model(const Config& config, int64_t inputs = 1) {
  torch::manual_seed(2);
  auto model = std::make_unique<Model>(toy_task(inputs), config);
  model->eval();
  return model;
}

torch::Tensor run(const Config& config, const torch::Tensor& tokens, const torch::Tensor& mask) {
  const torch::NoGradGuard no_grad;
  return make_model(config, tokens.size(1))->forward(tokens, mask);
}

// tests/parity/make_protocol_fixtures.py made it by the formula of LRA's own models.
TEST(PositionsTest, EqualLrasSinusoids) {
  const json fixture = read_json(LRA_SOURCE_DIR "/tests/fixtures/positions.json");
  ASSERT_FALSE(fixture["tables"].empty());
  for (const json& item : fixture["tables"]) {
    const std::vector<int64_t> rows = item["rows"];
    const auto table = sinusoidal_positions(rows.back() + 1, item["width"]);
    ASSERT_EQ(table.sizes(), torch::IntArrayRef({rows.back() + 1, item["width"].get<int64_t>()}));
    for (size_t i = 0; i < rows.size(); ++i) {
      const std::vector<double> values = item["values"][i];
      const auto expected = torch::tensor(values, torch::kDouble);
      EXPECT_LT(distance(table[rows[i]].to(torch::kDouble), expected), 1e-7) << "row " << rows[i];
    }
  }
}

TEST(PositionsTest, SinusoidalOnesAreNoParametersAndStandInTheCheckpoint) {
  Config learned = toy_config("standard", 0), fixed = toy_config("standard", 0);
  fixed.settings.model.positions = Positions::sinusoidal;
  const auto a = make_model(learned), b = make_model(fixed);
  EXPECT_EQ(a->parameter_count() - b->parameter_count(), 16 * 8);
  EXPECT_FALSE(b->named_parameters().contains("positions.weight"));
  ASSERT_TRUE(b->named_buffers().contains("fixed_positions"));
  EXPECT_EQ(distance(b->named_buffers()["fixed_positions"], sinusoidal_positions(16, 8)), 0);
}

// Attention and mean pooling alone cannot tell an order: what does are the positions.
TEST(PositionsTest, SinusoidalOnesTellOrder) {
  Config config = toy_config("standard", 0);
  config.settings.model.positions = Positions::sinusoidal;
  config.settings.model.embedding_sd = 1;
  const ToyBatch batch;
  const auto all = torch::ones_like(batch.mask);
  EXPECT_GT(distance(run(config, batch.tokens, all), run(config, batch.tokens.flip(2), all)), 1e-4);
}

// Without a parameter or a buffer, and without moving what stands before the layers.
TEST(PositionsTest, RotaryOnesTellOrder) {
  Config config = toy_config("standard", 0), none = config;
  config.settings.model.embedding_sd = none.settings.model.embedding_sd = 1;
  config.settings.model.positions = Positions::rotary;
  none.settings.model.positions = Positions::none;
  const ToyBatch batch;
  const auto all = torch::ones_like(batch.mask);
  const auto change = [&](const Config& tried) {
    return distance(run(tried, batch.tokens, all), run(tried, batch.tokens.flip(2), all));
  };
  EXPECT_LT(change(none), 1e-6);
  EXPECT_GT(change(config), 1e-5);
  Config slower = config;
  slower.settings.model.rotary_base = 100;
  EXPECT_GT(distance(run(slower, batch.tokens, all), run(config, batch.tokens, all)), 1e-6);
  const auto turned = make_model(config), plain = make_model(none);
  EXPECT_EQ(turned->parameter_count(), plain->parameter_count());
  EXPECT_EQ(turned->named_buffers().size(), plain->named_buffers().size());
  const auto seen = [&](Model& model) { return model.attention_inputs(batch.tokens, all)[0]; };
  EXPECT_EQ(distance(seen(*turned), seen(*plain)), 0);
}

TEST(PositionsTest, RotaryOnesAreRefusedWhereNothingTurns) {
  Config config = toy_config("nystrom[num_landmarks=4]", 0);
  config.settings.model.positions = Positions::rotary;
  EXPECT_THROW(make_model(config), UsageError);
  const auto made = [](const std::string& head_dim) {
    return make_config(load_protocol("lra-strict"), "listops", parse_attention("standard"),
                       {"model.positions=rotary", "model.head_dim=" + head_dim}, 0, "float32");
  };
  EXPECT_EQ(made("32").settings.model.rotation(), 10000);
  EXPECT_THROW(made("31"), UsageError);
}

TEST(PositionsTest, LearnedOnesStartWithTheirOwnDeviation) {
  Config config = toy_config("standard", 0);
  config.settings.input.length = 4000;
  config.settings.model.position_sd = 0.5;
  const auto model = make_model(config);
  EXPECT_NEAR(model->named_parameters()["positions.weight"].std().item<double>(), 0.5, 0.02);
}

TEST(ClassTokenTest, IsOneMoreLearnedVectorAndPosition) {
  const auto mean = make_model(toy_config("standard", 0)), cls = make_model(cls_config());
  EXPECT_EQ(cls->parameter_count() - mean->parameter_count(), 8 + 8) << "the vector, its position";
  EXPECT_EQ(cls->named_parameters()["cls"].abs().max().item<double>(), 0) << "zero at the start";
  EXPECT_EQ(cls->named_parameters()["positions.weight"].size(0), 17);
}

TEST(ClassTokenTest, WhatStandsAtPaddedPositionsChangesNothing) {
  for (const char* attention :
       {"standard", "nystrom[num_landmarks=4,conv_kernel_size=3]", "local[block=4]"}) {
    for (const Positions positions : all_values<Positions>()) {
      const bool turned = positions == Positions::rotary;
      Config config = cls_config(attention);
      if (turned && !attention_entry(config.attention.name).info.can_rotate) continue;
      config.settings.model.positions = positions;
      const ToyBatch batch;
      const auto other = torch::where(batch.mask, batch.tokens, torch::full_like(batch.tokens, 6));
      ASSERT_FALSE(torch::equal(other, batch.tokens));
      EXPECT_LT(distance(run(config, batch.tokens, batch.mask), run(config, other, batch.mask)),
                1e-6)
          << attention;
    }
  }
}

// Cut behind the tokens, the samples give the same: padding is no position either.
TEST(ClassTokenTest, TheAmountOfPaddingChangesNothing) {
  const Config config = cls_config();
  const ToyBatch batch;
  const auto row = torch::indexing::Slice(1, 2);
  const auto whole = run(config, batch.tokens.index({row}), batch.mask.index({row}));
  const auto cut =
      run(config, batch.tokens.index({row}).slice(2, 0, 9), batch.mask.index({row}).slice(2, 0, 9));
  EXPECT_LT(distance(whole, cut), 1e-6);
}

TEST(ClassTokenTest, SeesEveryTokenThroughAttentionAlone) {
  const Config config = cls_config();
  const ToyBatch batch;
  const auto all = torch::ones_like(batch.mask);
  for (const int64_t at : {0, 15}) {
    auto other = batch.tokens.clone();
    other.select(2, at).copy_(other.select(2, at).remainder(6) + 1);
    ASSERT_FALSE(torch::equal(other, batch.tokens));
    EXPECT_GT(distance(run(config, batch.tokens, all), run(config, other, all)), 1e-5) << at;
  }
}

// Without tokens the head reads what the class token alone gives, the same for all samples; a mean
// over no tokens is zero instead.
TEST(ClassTokenTest, IsNoTokenOfTheText) {
  const ToyBatch batch;
  const auto none = torch::zeros_like(batch.mask);
  const auto cls = run(cls_config(), batch.tokens, none);
  EXPECT_TRUE(cls.isfinite().all().item<bool>());
  EXPECT_LT(distance(cls[0], cls[1]), 1e-6);

  const auto model = make_model(cls_config());
  const torch::NoGradGuard no_grad;
  const auto inputs = model->attention_inputs(batch.tokens, batch.mask);
  ASSERT_EQ(inputs.size(), 2u);
  EXPECT_EQ(inputs[0].sizes(), torch::IntArrayRef({3, 16, 8})) << "rows of tokens only";
}

TEST(ClassTokenTest, GetsAGradientAndSoDoesItsPosition) {
  auto model = make_model(cls_config());
  const ToyBatch batch;
  model->forward(batch.tokens, batch.mask).sum().backward();
  EXPECT_GT(model->named_parameters()["cls"].grad().abs().max().item<double>(), 0);
  EXPECT_GT(model->named_parameters()["positions.weight"].grad()[0].abs().max().item<double>(), 0);
}

TEST(ClassTokenTest, ServesTwoInputs) {
  torch::manual_seed(3);
  const auto tokens = torch::randint(1, 7, {2, 2, 16}, torch::kInt64);
  const auto mask = torch::ones_like(tokens, torch::kBool);
  const auto out = run(cls_config(), tokens, mask);
  EXPECT_EQ(out.sizes(), torch::IntArrayRef({2, 3}));
  EXPECT_GT(distance(out, run(cls_config(), tokens.flip(1), mask)), 1e-6);
}

TEST(ClassTokenTest, TheLengthLimitCountsTokens) {
  auto model = make_model(cls_config());
  const auto tokens = torch::ones({1, 1, 17}, torch::kInt64);
  EXPECT_NO_THROW(model->forward(tokens.slice(2, 0, 16), tokens.slice(2, 0, 16).to(torch::kBool)));
  EXPECT_THROW(model->forward(tokens, tokens.to(torch::kBool)), c10::Error);
}

TEST(ClassTokenTest, RunsInBfloat16) {
  auto model = make_model(cls_config());
  const ToyBatch batch;
  const torch::NoGradGuard no_grad;
  const auto exact = model->forward(batch.tokens, batch.mask);
  const ops::AutocastScope autocast(torch::kCPU, ops::Dtype::bfloat16);
  const auto half = model->forward(batch.tokens, batch.mask).to(torch::kFloat32);
  EXPECT_LT(distance(exact, half), 0.05 * std::max(1.0, exact.abs().max().item<double>()));
}

// After a norm at the end of a block its output has mean 0 and variance 1 in every row; before it,
// only what goes into the attention has.
TEST(NormTest, StandsBeforeOrBehind) {
  for (const NormPlacement norm : all_values<NormPlacement>()) {
    Config config = toy_config("standard", 0);
    config.settings.model.norm = norm;
    config.settings.model.embedding_sd = 3;
    const auto model = make_model(config);
    const ToyBatch batch;
    const torch::NoGradGuard no_grad;
    const auto given = model->attention_inputs(batch.tokens, batch.mask);
    const bool pre = norm == NormPlacement::pre;
    EXPECT_EQ(model->named_parameters().contains("final_norm.weight"), pre);
    const auto spread = [&](size_t layer) {
      const auto variance = given[layer].var(-1, /*unbiased=*/false);  // [B,N]
      return variance.masked_select(batch.mask.squeeze(1)).sub(1).abs().max().item<double>();
    };
    EXPECT_EQ(spread(0) < 1e-2, pre) << "a bare embedding goes into the first layer of post";
    EXPECT_LT(spread(1), 1e-2) << to_string(norm);
  }
}

TEST(NormTest, PaddingChangesNothingBehindEither) {
  Config config = toy_config("standard", 0);
  config.settings.model.norm = NormPlacement::post;
  const ToyBatch batch;
  const auto other = torch::where(batch.mask, batch.tokens, torch::full_like(batch.tokens, 6));
  EXPECT_LT(distance(run(config, batch.tokens, batch.mask), run(config, other, batch.mask)), 1e-6);
}

}  // namespace
}  // namespace lra
