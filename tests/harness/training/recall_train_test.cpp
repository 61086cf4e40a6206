// Training on labels at positions: records, parts of a batch, and what is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "harness/training/train.h"
#include "tests/harness/training/train_fixture.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

class RecallTrain : public testing::Test {
 protected:
  void SetUp() override {
    task("selective_copying")
        .prepare({.out = data_,
                  .train = 64,
                  .dev = 20,
                  .test = 30,
                  .settings = {{"noise", 12}, {"tokens", 4}}});
  }

  TrainRequest request(const std::string& run, std::vector<std::string> sets = {},
                       const std::string& attention = "standard", int64_t steps = 8) const {
    std::vector<std::string> all = {"input.length=20",
                                    "model.width=16",
                                    "model.head_dim=16",
                                    "training.batch=8",
                                    "training.evaluate_every=4",
                                    "training.log_every=1",
                                    "training.steps=" + std::to_string(steps)};
    all.insert(all.end(), sets.begin(), sets.end());
    return {.config = make_config(load_protocol("recall"), "selective_copying",
                                  parse_attention(attention), all, 0, "float32"),
            .run = scratch_.path() / run,
            .data = data_};
  }
  std::vector<double> losses(const std::string& run) const {
    std::vector<double> found;
    const json log = comparable(scratch_.path() / run)["log"];
    for (const json& line : log)
      if (line["split"] == "train") found.push_back(line["loss"]);
    return found;
  }

  Scratch scratch_;
  fs::path data_ = scratch_.path() / "data";
};

TEST_F(RecallTrain, RecordsPositionsAndSamples) {
  ASSERT_EQ(train(request("run")), Status::ok);
  const Result result = read_result(scratch_.path() / "run" / kResultFile);
  ASSERT_TRUE(result.test.has_value());
  EXPECT_EQ(result.test->count, 120);
  EXPECT_EQ(result.test->samples, 30);
  EXPECT_EQ(result.test->independent(), 30);
  EXPECT_EQ(result.config["model"]["causal"], true);
  ASSERT_TRUE(result.data.majority.has_value());
  EXPECT_GT(*result.data.majority, 1.0 / 8);
  EXPECT_LT(*result.data.majority, 0.3);
  const Predictions predictions =
      parse_predictions(read_file(scratch_.path() / "run" / kPredictionsFile));
  EXPECT_EQ(predictions.size(), 120);
  EXPECT_EQ(predictions.correct(), result.test->correct);
  EXPECT_EQ(predictions.samples.back(), 29);
  EXPECT_EQ(predictions.positions.back(), 19);
  // Who answers each sample by its most frequent label.
  std::map<int64_t, std::map<int64_t, int64_t>> counts;
  for (size_t i = 0; i < predictions.labels.size(); ++i)
    ++counts[predictions.samples[i]][predictions.labels[i]];
  int64_t right = 0;
  for (const auto& [sample, of_label] : counts) {
    right += std::ranges::max_element(of_label, {}, [](const auto& entry) {
               return entry.second;
             })->second;
  }
  EXPECT_EQ(result.data.sample_majority, static_cast<double>(right) / 120);
  ASSERT_TRUE(result.data.dev_sample_majority.has_value());
  EXPECT_GT(*result.data.dev_sample_majority, *result.data.dev_majority);
  EXPECT_EQ(result.data.dev_baseline(), result.data.dev_sample_majority);
  EXPECT_TRUE(result.never_left_majority());
  // Of 16 classes none is known yet.
  EXPECT_NEAR(losses("run").front(), std::log(16), 0.3);
}

TEST_F(RecallTrain, LabelsPastTheLengthAreRefused) {
  for (const char* set : {"input.length=16", "input.cut=16"}) {
    const std::string error = error_text([&] { train(request("a", {set})); });
    EXPECT_NE(error.find("of which input.length and input.cut keep the first 16; give --set "
                         "input.length=20"),
              std::string::npos)
        << error;
    EXPECT_FALSE(fs::exists(scratch_.path() / "a" / kResultFile));
  }
}

TEST_F(RecallTrain, PartsOfABatchAddUpToItsMean) {
  const std::vector<std::string> still = {"model.dropout=0"};
  ASSERT_EQ(train(request("whole", still)), Status::ok);
  ASSERT_EQ(train(request("parts", {"model.dropout=0", "training.micro_batch=3"})), Status::ok);
  const std::vector<double> whole = losses("whole"), parts = losses("parts");
  ASSERT_EQ(whole.size(), 8u);
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(whole[i], parts[i], 1e-4) << i;
  EXPECT_LT(whole.back(), whole.front());
}

TEST_F(RecallTrain, CausalRunsAreOthersThanBidirectionalOnes) {
  ASSERT_EQ(train(request("causal", {}, "linear")), Status::ok);
  ASSERT_EQ(train(request("both", {"model.causal=false"}, "linear")), Status::ok);
  EXPECT_NE(losses("causal"), losses("both"));
  EXPECT_THROW(train(request("not", {}, "fnet")), UsageError);
}

}  // namespace
}  // namespace lra
