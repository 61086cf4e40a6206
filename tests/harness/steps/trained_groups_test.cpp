// optimizer.groups: which parameter is trained with what.
#include "harness/steps/trained_groups.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <thread>

#include "lra/config/protocol.h"
#include "lra/formats/safetensors.h"
#include "tests/harness/training/train_fixture.h"
#include "tests/lra/model/toy_model.h"

namespace lra {
namespace {

OptimizerOptions options_with(const std::string& groups) {
  OptimizerOptions options;
  options.lr = 0.01;
  options.weight_decay = 0.1;
  options.groups = json::parse(groups);
  return options;
}

Model toy_model() {
  torch::manual_seed(1);
  return Model(toy_task(), toy_config("linear", 0));
}

TEST(TrainedGroupsTest, AreOneWhereNothingIsSaid) {
  const Model whole = toy_model();
  const auto groups = trained_groups(whole, options_with("[]"));
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].lr, 0.01);
  EXPECT_EQ(groups[0].weight_decay, 0.1);
  const auto all = whole.parameters();
  ASSERT_EQ(groups[0].parameters.size(), all.size());
  for (size_t i = 0; i < all.size(); ++i) EXPECT_TRUE(groups[0].parameters[i].is_same(all[i]));
}

TEST(TrainedGroupsTest, TheFirstMatchWins) {
  const Model whole = toy_model();
  const auto groups = trained_groups(
      whole,
      options_with(R"([{"match": ["layer0_attention.*.weight", "positions.weight"], "lr": 0.5},
                              {"match": ["*.weight"], "weight_decay": 0}])"));
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(groups[0].name, "layer0_attention.*.weight, positions.weight");
  EXPECT_EQ(groups[0].parameter_count(), 4 * 8 * 8 + 16 * 8);
  EXPECT_EQ(groups[0].lr, 0.5);
  EXPECT_EQ(groups[0].weight_decay, 0.1) << "the optimizer's";
  EXPECT_EQ(groups[1].lr, 0.01);
  EXPECT_EQ(groups[1].weight_decay, 0);
  EXPECT_EQ(groups[2].name, "rest");
  for (const torch::Tensor& bias : groups[2].parameters) EXPECT_EQ(bias.dim(), 1);
  int64_t count = 0;
  for (const TrainedGroup& group : groups) count += group.parameter_count();
  EXPECT_EQ(count, whole.parameter_count());
}

TEST(TrainedGroupsTest, SlowMayBeNone) {
  EXPECT_EQ(trained_groups(toy_model(), options_with(R"([{"match": ["slow"], "lr": 1}])")).size(),
            1u);
}

TEST(TrainedGroupsTest, SlowIsWhatTheAttentionSaysOfItself) {
  torch::manual_seed(1);
  const Model whole(toy_task(), toy_config("s4d", 0));
  const auto groups = trained_groups(whole, options_with(R"([{"match": ["slow"], "lr": 0.001}])"));
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].lr, 0.001);
  std::set<std::string> names, expected;
  for (const auto& item : whole.named_parameters()) {
    for (const torch::Tensor& slow : groups[0].parameters) {
      if (slow.is_same(item.value())) names.insert(item.key());
    }
  }
  for (const std::string layer : {"layer0_attention.", "layer1_attention."}) {
    for (const char* own : {"log_a_re", "a_im", "b", "dt"}) expected.insert(layer + own);
  }
  EXPECT_EQ(names, expected);
}

TEST(TrainedGroupsTest, RefuseWhatMatchesNothing) {
  const auto refusal = [&](const std::string& groups) {
    return error_text<UsageError>([&] { trained_groups(toy_model(), options_with(groups)); });
  };
  EXPECT_NE(
      refusal(R"([{"match": ["*.A_real"], "lr": 1}])").find("'*.A_real' matches no parameter"),
      std::string::npos);
  EXPECT_NE(refusal(R"([{"match": ["*.weight"], "lr": 1}, {"match": ["tokens.*"], "lr": 1}])")
                .find("'tokens.*'"),
            std::string::npos)
      << "an earlier group has it";
  EXPECT_EQ(refusal(R"([{"match": ["slow"], "lr": 1}])"), "(no error)")
      << "linear attention has no such parameters";
  EXPECT_NE(refusal(R"([{"match": []}])").find("optimizer.groups[0]: match should be"),
            std::string::npos);
  EXPECT_NE(refusal(R"([{"match": ["*"], "rate": 1}])").find("'rate'"), std::string::npos);
  EXPECT_NE(refusal(R"([{"match": ["*"], "lr": 0}])").find("lr should be"), std::string::npos);
}

TEST(TrainedGroupsTest, ARateThatIsAFactorFollowsTheOthers) {
  const auto rate = [](const std::vector<std::string>& sets) {
    const Config config = make_config(load_protocol("lru-2023"), "listops", parse_attention("lru"),
                                      sets, 0, "float32");
    return config.settings.optimizer.groups.at(0);
  };
  const json plain = {{"match", {"slow"}}, {"lr", 0.0005}, {"weight_decay", 0}};
  EXPECT_EQ(rate({}), plain) << "as records have it";
  EXPECT_EQ(rate({"optimizer.lr=0.004"}).at("lr"), 0.002);
  EXPECT_THROW(rate({R"(optimizer.groups=[{"match":["slow"],"lr":1,"lr_factor":1}])"}), UsageError);
  EXPECT_THROW(rate({R"(optimizer.groups=[{"match":["slow"],"lr_factor":0}])"}), UsageError);
}

// One factor of the schedule moves all, each from its own rate: after a step, a parameter with a
// gradient has moved by its learning rate, as AdamW's first step does.
TEST(TrainedGroupsTest, EachHasItsRateAndDecay) {
  const Model whole = toy_model();
  const OptimizerOptions options =
      options_with(R"([{"match": ["tokens.weight"], "lr": 0.002, "weight_decay": 0}])");
  auto optimizer = make_optimizer(trained_groups(whole, options), options);
  std::map<std::string, torch::Tensor> before;
  for (const auto& item : whole.named_parameters()) {
    before[item.key()] = item.value().detach().clone();
    item.value().mutable_grad() = torch::ones_like(item.value());
  }
  optimizer.step();
  for (const auto& item : whole.named_parameters()) {
    const bool own = item.key() == "tokens.weight";
    const double lr = own ? 0.002 : 0.01, decay = own ? 0 : 0.1;
    const torch::Tensor expected = before.at(item.key()) * (1 - lr * decay) - lr;
    EXPECT_LT((item.value() - expected).abs().max().item<double>(), 1e-5) << item.key();
  }
}

// Of a run: every group stands in its record and is said, and with BatchNorm, tied dropout and
// groups it goes on to the same bits.
TEST_F(TrainTest, ARecipeWithGroupsResumesToTheSameBits) {
  const auto recipe = [&](const std::string& name, int64_t steps) {
    auto given = words(name, "linear", steps);
    for (const char* set :
         {"model.block=s5", "model.norm_kind=batch", "model.dropout_kind=tied",
          "model.positions=none", "schedule.kind=cosine_offset",
          R"(optimizer.groups=[{"match":["*attention*"],"lr":0.0005,"weight_decay":0}])"})
      given.insert(given.end(), {"--set", set});
    return given;
  };
  const ProgramResult whole = run_program(recipe("whole", 200));
  ASSERT_EQ(whole.status, 0) << whole.err;
  EXPECT_NE(whole.err.find("lr 0.0005, weight decay 0: "), std::string::npos) << whole.err;
  EXPECT_NE(whole.err.find("parameters, *attention*"), std::string::npos) << whole.err;
  const Result record = parse_result(read_json(run("whole") / kResultFile));
  ASSERT_EQ(record.parameter_groups.size(), 2u);
  EXPECT_EQ(record.parameter_groups[0].lr, 0.0005);
  EXPECT_EQ(record.parameter_groups[0].count + record.parameter_groups[1].count, record.parameters);
  EXPECT_EQ(record.regime, "2021");
  const auto killed = recipe("cut", 200);
  Program program(killed);
  while (!std::filesystem::exists(run("cut") / kMetricsFile))
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  program.send(SIGINT);
  ASSERT_EQ(program.wait().status, 130);
  ASSERT_EQ(run_program(killed).status, 0);
  EXPECT_EQ(comparable(run("cut")), comparable(run("whole")));
  EXPECT_EQ(tensor_bytes(run("cut") / kLastCheckpoint),
            tensor_bytes(run("whole") / kLastCheckpoint));
}

// The schedule moves each group from its own rate: parameters of a rate too low to move them end as
// those of a run in which none moves.
TEST_F(TrainTest, TheScheduleKeepsTheRateOfAGroup) {
  const auto trained = [&](const std::string& name, const std::string& match) {
    auto given = words(name, "linear");
    given.insert(given.end(), {"--set", R"(optimizer.groups=[{"match":[")" + match +
                                            R"("],"lr":1e-30,"weight_decay":0}])"});
    EXPECT_EQ(run_program(given).status, 0);
    std::map<std::string, torch::Tensor> tensors;
    for (const auto& [key, tensor] : read_tensors(run(name) / kLastCheckpoint).tensors)
      tensors[key] = tensor;
    return tensors;
  };
  auto slow = trained("tokens", "tokens.weight"), still = trained("all", "*");
  EXPECT_TRUE(torch::equal(slow.at("model.tokens.weight"), still.at("model.tokens.weight")));
  EXPECT_FALSE(torch::equal(slow.at("model.positions.weight"), still.at("model.positions.weight")));
}

TEST_F(TrainTest, BatchNormRefusesPartsOfABatch) {
  auto given = words("parts", "linear");
  for (const char* set : {"model.norm_kind=batch", "training.micro_batch=3"})
    given.insert(given.end(), {"--set", set});
  const ProgramResult result = run_program(given);
  EXPECT_EQ(result.status, 2);
  EXPECT_NE(result.err.find("training.micro_batch should be 0, not 3"), std::string::npos)
      << result.err;
}

TEST_F(TrainTest, PixelsAreOfImagesAlone) {
  auto given = words("pixels", "linear");
  given.insert(given.end(), {"--set", "model.encoder=linear"});
  const ProgramResult result = run_program(given);
  EXPECT_EQ(result.status, 2);
  EXPECT_NE(result.err.find("reads pixels, which task listops has not"), std::string::npos)
      << result.err;
}

}  // namespace
}  // namespace lra
