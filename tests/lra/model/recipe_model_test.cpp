// What recipes after 2021 have of a model around its blocks: encoders of pixels, no positions,
// pooling, heads, norms over a batch.
#include <gtest/gtest.h>

#include <set>

#include "tests/lra/model/toy_model.h"

namespace lra::recipes {
namespace {

Config recipe(BlockKind block, NormKind norm = NormKind::layer) {
  Config config = toy_config("linear", 0);
  config.settings.model.block = block;
  config.settings.model.norm_kind = norm;
  config.settings.model.positions = Positions::none;
  config.settings.model.embedding_sd = 1;
  config.settings.model.head = Head::linear;
  return config;
}

Task pixels() {
  Task task = toy_task();
  task.image = true;
  task.vocabulary = 256;
  return task;
}

std::unique_ptr<Model> recipe_model(const Config& config, const Task& task = toy_task()) {
  torch::manual_seed(2);
  auto model = std::make_unique<Model>(task, config);
  model->to(torch::kDouble);
  model->eval();
  return model;
}

std::set<std::string> parameters_of(const Model& model) {
  std::set<std::string> names;
  for (const auto& item : model.named_parameters()) names.insert(item.key());
  return names;
}

// The rows that the first attention is given, of norms that come after the sum.
torch::Tensor first_rows(Config config, const Task& task, const torch::Tensor& tokens) {
  config.settings.model.norm = NormPlacement::post;
  const auto model = recipe_model(config, task);
  return model->attention_inputs(tokens, torch::ones_like(tokens, torch::kBool)).front();
}

TEST(EncoderTest, ReadsPixelsAsNumbers) {
  for (const Encoding encoder : {Encoding::linear, Encoding::real}) {
    Config config = recipe(BlockKind::s5);
    config.settings.model.encoder = encoder;
    config.settings.model.pixel_mean = 0.48;
    config.settings.model.pixel_sd = 0.24;
    const auto model = recipe_model(config, pixels());
    EXPECT_FALSE(parameters_of(*model).contains("tokens.weight"));
    const torch::Tensor tokens = torch::randint(0, 256, {2, 1, 16}, torch::kLong);
    const torch::Tensor weight = model->named_parameters()["pixels.weight"],
                        bias = model->named_parameters()["pixels.bias"];
    const torch::Tensor expected =
        ((tokens[0][0].to(torch::kDouble) / 255 - 0.48) / 0.24).unsqueeze(1) * weight.t() + bias;
    EXPECT_LT(distance(first_rows(config, pixels(), tokens)[0], expected), 1e-12);
  }
}

Task coloured_pixels() {
  Task task = pixels();
  task.channels = 3;
  return task;
}

// Three values a position, each normalised by its own channel.
TEST(EncoderTest, ReadsColoursOfAPosition) {
  Config config = recipe(BlockKind::s5);
  config.settings.model.encoder = Encoding::linear;
  config.settings.model.pixel_means = {0.4914, 0.4822, 0.4465};
  config.settings.model.pixel_sds = {0.247, 0.243, 0.261};
  const auto model = recipe_model(config, coloured_pixels());
  const torch::Tensor tokens = torch::randint(0, 256, {2, 3, 16}, torch::kLong);
  const torch::Tensor weight = model->named_parameters()["pixels.weight"],
                      bias = model->named_parameters()["pixels.bias"];
  ASSERT_EQ(weight.size(1), 3);
  const auto number = [](const std::vector<double>& values) {
    return torch::tensor(values, torch::kDouble);
  };
  const torch::Tensor values =
      (tokens[1].t().to(torch::kDouble) / 255 - number(config.settings.model.pixel_means)) /
      number(config.settings.model.pixel_sds);  // [16,3]
  const torch::Tensor expected = torch::matmul(values, weight.t()) + bias;
  EXPECT_LT(distance(first_rows(config, coloured_pixels(), tokens)[1], expected), 1e-12);

  // All channels of a position are padding together.
  torch::Tensor mask = torch::ones_like(tokens, torch::kBool);
  mask.slice(2, 9).fill_(false);
  const torch::NoGradGuard no_grad;
  torch::Tensor other = tokens.clone();
  other.slice(2, 9).fill_(7);
  const torch::Tensor logits = model->forward(tokens, mask);
  EXPECT_EQ(logits.sizes(), torch::IntArrayRef({2, 3}));
  EXPECT_LT(distance(model->forward(other, mask), logits), 1e-12);
  for (int64_t c = 0; c < 3; ++c) {
    torch::Tensor changed = tokens.clone();
    changed[0][c][4] = (changed[0][c][4] + 100).remainder(256);
    EXPECT_GT(distance(model->forward(changed, mask), logits), 1e-6) << "channel " << c;
  }
  EXPECT_THROW(model->forward(tokens.slice(1, 0, 1), mask.slice(1, 0, 1)), c10::Error);
}

TEST(EncoderTest, RefusesWhatColoursDoNotFit) {
  Config config = recipe(BlockKind::s5);
  EXPECT_THROW(recipe_model(config, coloured_pixels()), c10::Error) << "an embedding";
  config.settings.model.encoder = Encoding::linear;
  config.settings.model.pixel_means = {0.5, 0.5};
  EXPECT_THROW(recipe_model(config, coloured_pixels()), c10::Error) << "two means";
  const auto made = [](std::vector<std::string> sets) {
    sets.insert(sets.begin(), "input.colours=rgb");
    return make_config(load_protocol("s5-2023"), "image", parse_attention("s5"), sets, 0,
                       "float32");
  };
  EXPECT_EQ(made({"model.pixel_means=[0.4914,0.4822,0.4465]"}).settings.model.pixel_means.size(),
            3u);
  for (const char* set : {"model.pixel_means=[0.5,0.5]", "model.pixel_sds=[0.2,0,0.2]",
                          "model.pixel_sds=0.2", "model.encoder=embedding", "input.mask=nonzero"})
    EXPECT_THROW(made({set}), UsageError) << set;
  EXPECT_THROW(make_config(load_protocol("s5-2023"), "text", parse_attention("s5"),
                           {"input.colours=rgb"}, 0, "float32"),
               UsageError);
}

TEST(EncoderTest, StartsAsItsRecipeHasIt) {
  Config config = recipe(BlockKind::s4);
  config.settings.model.width = 4000;
  config.settings.model.heads = 1;
  config.settings.model.layers = 1;
  config.settings.model.head_dim = 1;
  const auto started = [&](Encoding encoder, const char* name) {
    config.settings.model.encoder = encoder;
    return recipe_model(config, pixels())->named_parameters()[name];
  };
  EXPECT_NEAR(started(Encoding::real, "pixels.weight").std().item<double>(), 1, 0.05);
  EXPECT_NEAR(started(Encoding::real, "pixels.bias").std().item<double>(), 0.1, 0.005);
  const torch::Tensor uniform = started(Encoding::linear, "pixels.weight").abs();
  EXPECT_LE(uniform.max().item<double>(), 1);
  EXPECT_NEAR(uniform.mean().item<double>(), 0.5, 0.03);
}

TEST(EncoderTest, MayAddNoPositions) {
  const Config config = recipe(BlockKind::s5);
  const auto model = recipe_model(config);
  EXPECT_FALSE(parameters_of(*model).contains("positions.weight"));
  EXPECT_EQ(model->named_buffers().size(), 0u);
  const ToyBatch batch;
  const torch::Tensor rows = first_rows(config, toy_task(), batch.tokens);
  EXPECT_LT(distance(rows[0], model->named_parameters()["tokens.weight"].index_select(
                                  0, batch.tokens[0][0])),
            1e-15);
}

TEST(EncoderTest, IsThatOfTheJoinedOperatorWithoutIt) {
  Config config = toy_config("linear", 0);
  config.settings.model.pooling = Pooling::cls;
  const ToyBatch batch;
  const torch::Tensor joined = first_rows(config, toy_task(), batch.tokens);
  config.settings.model.dropout_kind = DropoutKind::tied;  // in single steps
  EXPECT_LT(distance(first_rows(config, toy_task(), batch.tokens), joined), 1e-15);
}

// Logits of a model whose last rows are known: pooled rows through its one linear layer.
TEST(PoolingTest, TakesTheLastRealRowOrTheGreatestOfEachChannel) {
  const ToyBatch batch;
  for (const BlockKind block : {BlockKind::s5, BlockKind::s4}) {  // without a last norm, and with
    Config config = recipe(block);
    std::map<Pooling, torch::Tensor> logits;
    for (const Pooling pooling : {Pooling::first, Pooling::last, Pooling::max}) {
      config.settings.model.pooling = pooling;
      logits[pooling] = recipe_model(config)->forward(batch.tokens, batch.mask);
    }
    // One token alone is first, last and greatest.
    EXPECT_LT(distance(logits[Pooling::first][2], logits[Pooling::last][2]), 1e-12);
    EXPECT_LT(distance(logits[Pooling::first][2], logits[Pooling::max][2]), 1e-12);
    EXPECT_GT(distance(logits[Pooling::first][1], logits[Pooling::last][1]), 1e-3);
    EXPECT_GT(distance(logits[Pooling::last][1], logits[Pooling::max][1]), 1e-3);
    // The last of nine tokens stands at position 8: reversed, it is the first.
    const torch::Tensor turned = batch.tokens.slice(2, 0, 9).flip(2);
    const torch::Tensor all = torch::ones_like(turned, torch::kBool);
    config.settings.model.pooling = Pooling::first;
    EXPECT_LT(distance(recipe_model(config)->forward(turned, all)[1], logits[Pooling::last][1]),
              1e-12);
    // No order of tokens changes what is greatest, and no padding.
    config.settings.model.pooling = Pooling::max;
    EXPECT_LT(distance(recipe_model(config)->forward(turned, all)[1], logits[Pooling::max][1]),
              1e-12);
  }
}

TEST(PoolingTest, PaddingChangesNothing) {
  const ToyBatch batch;
  const auto other = torch::where(batch.mask, batch.tokens, torch::full_like(batch.tokens, 6));
  for (const Pooling pooling : {Pooling::last, Pooling::max, Pooling::mean}) {
    for (const NormKind norm : all_values<NormKind>()) {
      for (const BlockKind block : all_values<BlockKind>()) {
        Config config = recipe(block, norm);
        config.settings.model.pooling = pooling;
        const auto model = recipe_model(config);
        EXPECT_TRUE(model->length_invariant());
        EXPECT_LT(
            distance(model->forward(batch.tokens, batch.mask), model->forward(other, batch.mask)),
            1e-12)
            << to_string(pooling) << to_string(norm) << to_string(block);
      }
    }
  }
}

// As some code has it: layers read padding as tokens, and pooling does not.
TEST(PaddingTest, CountsInLayersWhereARecipeSaysSo) {
  const ToyBatch batch;
  const auto other = torch::where(batch.mask, batch.tokens, torch::full_like(batch.tokens, 6));
  Config config = recipe(BlockKind::s5);
  config.settings.model.padding = Padding::counted;
  const auto model = recipe_model(config);
  EXPECT_FALSE(model->length_invariant());
  const torch::Tensor a = model->forward(batch.tokens, batch.mask),
                      b = model->forward(other, batch.mask);
  EXPECT_LT(distance(a[0], b[0]), 1e-12) << "without padding";
  EXPECT_GT(distance(a[1], b[1]), 1e-3);
  const torch::Tensor all = torch::ones_like(batch.mask);
  EXPECT_GT(distance(model->forward(batch.tokens, all)[1], a[1]), 1e-3) << "pooling is masked";
}

TEST(HeadTest, HasTheLayersOfItsRecipe) {
  Config config = recipe(BlockKind::s4);
  for (const auto& [head, names] : std::map<Head, std::set<std::string>>{
           {Head::linear, {"0.weight", "0.bias"}},
           {Head::gelu, {"0.weight", "0.bias", "2.weight", "2.bias"}},
           {Head::mega, {"0.weight", "0.bias", "3.weight"}}}) {
    config.settings.model.head = head;
    config.settings.model.pair = PairForm::concat;
    const auto model = recipe_model(config, toy_task(2));
    std::set<std::string> found;
    for (const std::string& name : parameters_of(*model)) {
      if (name.starts_with("classifier.")) found.insert(name.substr(11));
    }
    EXPECT_EQ(found, names) << to_string(head);
    EXPECT_EQ(model->named_parameters()["classifier.0.weight"].size(1), 16) << "[a, b] alone";
  }
}

TEST(RecipeModelTest, NormalisesAtTheEndAsItsSourceDoes) {
  for (const BlockKind block : all_values<BlockKind>()) {
    for (const NormPlacement placement : all_values<NormPlacement>()) {
      Config config = recipe(block);
      config.settings.model.norm = placement;
      EXPECT_EQ(parameters_of(*recipe_model(config)).contains("final_norm.weight"),
                placement == NormPlacement::pre && block != BlockKind::s5)
          << to_string(block);
    }
  }
}

TEST(RecipeModelTest, RunningStatisticsAreBuffersOfTheCheckpoint) {
  const auto model = recipe_model(recipe(BlockKind::s5, NormKind::batch));
  const ToyBatch batch;
  const auto before = model->named_buffers()["layer1_norm.running_mean"].clone();
  model->forward(batch.tokens, batch.mask);
  EXPECT_TRUE(torch::equal(model->named_buffers()["layer1_norm.running_mean"], before));
  model->train();
  model->forward(batch.tokens, batch.mask);
  EXPECT_FALSE(torch::equal(model->named_buffers()["layer1_norm.running_mean"], before));
}

TEST(RecipeModelTest, CountsTheProductsOfItsBlocks) {
  for (const auto& [block, weights] : std::map<BlockKind, int64_t>{
           {BlockKind::transformer, 2 * 8 * 16}, {BlockKind::s4, 8 * 16}, {BlockKind::s5, 8 * 8}}) {
    const Config config = recipe(block);
    Config bare = recipe(BlockKind::transformer);
    bare.settings.model.feed_forward = 0;
    const int64_t attention = recipe_model(bare)->flops(2, 16);
    EXPECT_EQ(recipe_model(config)->flops(2, 16) - attention, 2 * 16 * 2 * 2 * weights)
        << to_string(block);
  }
}

}  // namespace
}  // namespace lra::recipes
