// Every registered variant through the program: training, evaluation, measuring, in the number
// types; a variant that is added is tested here without a word.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <set>

#include "attention_variants/registry.h"
#include "tests/harness/program.h"
#include "tests/support/shipped.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> variant_names() {
  std::vector<std::string> names;
  for (const AttentionEntry* entry : shipped_attentions()) names.push_back(entry->info.name);
  return names;
}

std::string name_of(const testing::TestParamInfo<std::string>& info) { return info.param; }

class EveryVariant : public testing::TestWithParam<std::string> {
 protected:
  Scratch scratch_;
  fs::path data_ = scratch_.path() / "data", run_ = scratch_.path() / "run";
};
INSTANTIATE_TEST_SUITE_P(All, EveryVariant, testing::ValuesIn(variant_names()), name_of);

TEST_P(EveryVariant, TrainsAndEvaluatesInBothTypes) {
  prepare_tiny_listops(data_);
  for (const char* dtype : {"float32", "bfloat16"}) {
    const fs::path run = run_ / dtype;
    std::vector<std::string> words = tiny_train(data_, run, GetParam(), 8);
    words.insert(words.end(), {"--dtype", dtype});
    const ProgramResult trained = run_program(words);
    ASSERT_EQ(trained.status, 0) << trained.err;
    const json result = read_json(run / kResultFile);
    EXPECT_EQ(result["status"], "ok");
    EXPECT_EQ(result["attention"]["name"], GetParam());
    EXPECT_EQ(result["test"]["count"], 50);
    const ProgramResult evaluated = run_program({"evaluate", run.string(), "--split", "dev"});
    EXPECT_EQ(evaluated.status, 0) << evaluated.err;
  }
}

// All variants in one call: each call measures the machine's limits first.
class EveryVariantIsMeasured : public testing::TestWithParam<std::pair<const char*, const char*>> {
};
using ScopeAndMode = testing::TestParamInfo<std::pair<const char*, const char*>>;
std::string scope_of(const ScopeAndMode& given) { return given.param.first; }
INSTANTIATE_TEST_SUITE_P(All, EveryVariantIsMeasured,
                         testing::Values(std::pair{"model", "training"}), scope_of);
class SlowEveryVariantIsMeasured : public EveryVariantIsMeasured {};
INSTANTIATE_TEST_SUITE_P(All, SlowEveryVariantIsMeasured,
                         testing::Values(std::pair{"core", "inference"},
                                         std::pair{"module", "training"}),
                         scope_of);

void expect_measured(const char* scope, const char* mode) {
  const Scratch scratch;
  const fs::path out = scratch.path() / "profile.jsonl";
  const std::vector<std::string> names = variant_names();
  const ProgramResult result = run_program({"profile",
                                            "--attentions",
                                            fmt::format("{}", fmt::join(names, ",")),
                                            "--lengths",
                                            "128",
                                            "--scope",
                                            scope,
                                            "--mode",
                                            mode,
                                            "--heads",
                                            "2",
                                            "--head-dim",
                                            "16",
                                            "--seconds",
                                            "0.02",
                                            "--passes",
                                            "1",
                                            "--threads",
                                            "1",
                                            "--out",
                                            out.string()});
  ASSERT_EQ(result.status, 0) << result.err;
  std::set<std::string> measured;
  std::ifstream file(out);
  for (std::string text; std::getline(file, text);) {
    const json line = json::parse(text);
    measured.insert(line["attention"]["name"]);
    // A mixer without q, k and v has no core.
    if (line["status"] == "unsupported") {
      EXPECT_STREQ(scope, "core") << line.dump();
      continue;
    }
    EXPECT_EQ(line["status"], "ok") << line.dump();
    EXPECT_GT(line["time_ms"]["median"], 0);
    EXPECT_GT(line["memory_mib"]["peak"], 0);
  }
  EXPECT_EQ(measured, std::set<std::string>(names.begin(), names.end()));
}

TEST_P(EveryVariantIsMeasured, InItsScopeAndMode) {
  expect_measured(GetParam().first, GetParam().second);
}
TEST_P(SlowEveryVariantIsMeasured, InItsScopeAndMode) {
  expect_measured(GetParam().first, GetParam().second);
}

class SlowEveryVariant : public EveryVariant {};
INSTANTIATE_TEST_SUITE_P(All, SlowEveryVariant, testing::ValuesIn(variant_names()), name_of);

// 200 steps of batch 8 at length 512: the loss at the end is below that at the start.
TEST_P(SlowEveryVariant, LossFallsInTwoHundredSteps) {
  task("listops").prepare({.out = data_,
                           .seed = 5,
                           .train = 2000,
                           .dev = 50,
                           .test = 50,
                           .min_length = 50,
                           .max_length = 500});
  const ProgramResult result = run_program({"train",
                                            "--task",
                                            "listops",
                                            "--attention",
                                            GetParam(),
                                            "--threads",
                                            "1",
                                            "--data",
                                            data_.string(),
                                            "--run",
                                            run_.string(),
                                            "--set",
                                            "input.length=512",
                                            "--set",
                                            "training.steps=200",
                                            "--set",
                                            "training.batch=8",
                                            "--set",
                                            "training.evaluate_every=200",
                                            "--set",
                                            "training.log_every=20",
                                            "--set",
                                            "schedule.warmup=20",
                                            "--set",
                                            "optimizer.lr=0.001"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(read_json(run_ / kResultFile)["status"], "ok");
  std::vector<double> losses;  // means over 20 steps
  for (const json& entry : read_lines(run_ / kMetricsFile)) {
    if (entry["split"] != "train") continue;
    losses.push_back(entry["loss"]);
    EXPECT_TRUE(std::isfinite(losses.back())) << entry;
  }
  ASSERT_EQ(losses.size(), 10u);
  // The last 100 steps against the first 20.
  double last = 0;
  for (size_t i = 5; i < 10; ++i) last += losses[i] / 5;
  EXPECT_LT(last, losses[0]);
}

}  // namespace
}  // namespace lra
