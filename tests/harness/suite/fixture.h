// Suites of seconds: a budget with a tiny ListOps, and the words that run it.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "harness/suite/cell.h"
#include "harness/training/run_folder.h"
#include "tests/harness/program.h"

namespace lra::suite {

class SuiteTest : public testing::Test {
 protected:
  void SetUp() override { write_budget(12); }
  void write_budget(int64_t steps, const std::string& profiled_lengths = "64") {
    json set = json::object();
    for (const std::string& text : tiny_settings(steps)) {
      set[text.substr(0, text.find('='))] = value_from_text(text.substr(text.find('=') + 1));
    }
    write_json(budget_, {{"schema", "lra.budget/1"},
                         {"name", "tiny"},
                         {"tasks",
                          {{"listops",
                            {{"train", 96},
                             {"dev", 40},
                             {"test", 50},
                             {"min_length", 10},
                             {"max_length", 60},
                             {"set", set}}}}},
                         {"profile", {{"lengths", profiled_lengths}, {"seconds", 0.02}}}});
  }
  std::vector<std::string> words(
      const std::string& out,
      const std::string& attentions = "standard,nystrom[num_landmarks=8]") const {
    return {"suite",
            "--budget",
            budget_.string(),
            "--attentions",
            attentions,
            "--out",
            (scratch_.path() / out).string(),
            "--threads",
            "1",
            "--resume"};
  }
  std::filesystem::path out(const std::string& name) const { return scratch_.path() / name; }
  std::filesystem::path run(const std::string& suite, const std::string& attention,
                            int64_t seed = 0) const {
    return out(suite) / "runs/listops" / attention / ("seed" + std::to_string(seed));
  }

  Scratch scratch_;
  std::filesystem::path budget_ = scratch_.path() / "tiny.json";
};

/// The same words with another --threads.
inline std::vector<std::string> with_threads(std::vector<std::string> words, int64_t threads) {
  *(std::ranges::find(words, "--threads") + 1) = std::to_string(threads);
  return words;
}

/// Holds two run folders to the same end: every bit of it that is no clock.
inline void expect_same_run(const std::filesystem::path& a, const std::filesystem::path& b) {
  SCOPED_TRACE(a.string());
  ASSERT_EQ(final_status(a), Status::ok);
  ASSERT_EQ(final_status(b), Status::ok);
  EXPECT_EQ(read_file(a / kPredictionsFile), read_file(b / kPredictionsFile));
  const json left = read_json(a / kResultFile), right = read_json(b / kResultFile);
  for (const char* key : {"test", "dev", "best_step", "steps", "config", "data"})
    EXPECT_EQ(left[key], right[key]) << key;
  EXPECT_EQ(log_without_clocks(a), log_without_clocks(b))
      << "every step once, with the same losses";
}

}  // namespace lra::suite
