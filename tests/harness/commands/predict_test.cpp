// lra predict: what a run's model says of samples from a file, held against what the run said.
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "tests/harness/program.h"

namespace lra {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

class PredictTest : public testing::Test {
 protected:
  void train_run(const Words& more = {}) {
    prepare_tiny_listops(data_);
    Words words = tiny_train(data_, run_, "standard", 6);
    words.insert(words.end(), more.begin(), more.end());
    const ProgramResult result = run_program(words);
    ASSERT_EQ(result.status, 0) << result.err;
  }

  // The test split's expressions, one a line, as LRA's file has them.
  std::string test_lines() const {
    const fs::path out = scratch_.path() / "exported";
    EXPECT_EQ(run_program({"data", "export", data_.string(), "--out", out.string()}).status, 0);
    std::istringstream rows(read_file(out / "listops" / "basic_test.tsv"));
    std::string lines, row;
    std::getline(rows, row);  // the header
    while (std::getline(rows, row)) lines += row.substr(0, row.find('\t')) + "\n";
    return lines;
  }

  // predictions-test.csv without its labels.
  std::string said_by_the_run() const {
    std::istringstream rows(read_file(run_ / "predictions-test.csv"));
    std::string text, row;
    while (std::getline(rows, row)) {
      const size_t label = row.find(','), behind = row.find(',', label + 1);
      text += row.substr(0, label) + row.substr(behind) + "\n";
    }
    return text;
  }

  Words words(const std::string& lines, const Words& more = {}) const {
    write_file(file_, lines);
    Words all = {"predict", run_.string(), "--input", file_.string(), "--threads", "1"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  Scratch scratch_;
  const fs::path data_ = scratch_.path() / "data", run_ = scratch_.path() / "run",
                 file_ = scratch_.path() / "lines.txt";
};

TEST_F(PredictTest, SaysWhatTheRunSaidOfTheTestSplitWithoutItsData) {
  ASSERT_NO_FATAL_FAILURE(train_run());
  const std::string lines = test_lines();
  fs::remove_all(data_);
  EXPECT_EQ(output_of(words(lines)), said_by_the_run());
  fs::remove_all(fs::path(file_).parent_path() / "exported");
  std::string windows = lines;
  for (size_t at = 0; (at = windows.find('\n', at)) != std::string::npos; at += 2)
    windows.insert(at, "\r");
  windows.resize(windows.size() - 2);  // no end of the last line
  EXPECT_EQ(output_of(words(windows)), said_by_the_run());
}

TEST_F(PredictTest, ReadsLinesAsTheRunReadItsData) {
  ASSERT_NO_FATAL_FAILURE(train_run({"--set", "input.brackets=drop", "--set", "input.length=24",
                                     "--set", "evaluation.drop_last=true"}));
  const ProgramResult result = run_program(words(test_lines()));
  ASSERT_EQ(result.status, 0) << result.err;
  // 50 samples in batches of 16: the run leaves the last two out, and lines are never left out.
  const std::string said = said_by_the_run();
  EXPECT_EQ(std::ranges::count(said, '\n'), 1 + 48);
  EXPECT_EQ(std::ranges::count(result.out, '\n'), 1 + 50);
  EXPECT_TRUE(result.out.starts_with(said)) << result.out << said;
  EXPECT_NE(result.err.find(" of 50 lines are cut: the run reads 24 tokens\n"), std::string::npos)
      << result.err;
}

TEST_F(PredictTest, WritesJson) {
  ASSERT_NO_FATAL_FAILURE(train_run());
  const json made =
      json::parse(output_of(words("[MAX 2 [SM 3 4 ] ]\n", {"--json", "--checkpoint", "last"})));
  EXPECT_EQ(made["step"], 6);
  EXPECT_EQ(made["checkpoint"], "last");
  EXPECT_EQ(made["cut"], 0);
  ASSERT_EQ(made["predictions"].size(), 1U);
  const json& line = made["predictions"][0];
  EXPECT_EQ(line["index"], 0);
  EXPECT_TRUE(line["predicted"].get<int64_t>() >= 0 && line["predicted"].get<int64_t>() < 10);
  EXPECT_GE(line["confidence"].get<double>(), 0.1) << "the highest of ten";
}

TEST_F(PredictTest, NamesTheLineThatIsNoSample) {
  ASSERT_NO_FATAL_FAILURE(train_run());
  const std::string file = file_.string();
  expect_refusal(words("[MAX 1 2 ]\n[MAX 1\n"), 1, file + ", line 2: 1 lists are not closed");
  expect_refusal(words("[MAX 1 2 ]\n\n"), 1, file + ", line 2: the expression is empty");
  expect_refusal(words("[MAX 1 eleven ]\n"), 1, file + ", line 1: unknown token 'eleven'");
  expect_refusal(words(""), 1, file + " has no line; one sample a line is expected");
  expect_refusal({"predict", run_.string()}, 2, "--input is required");
  expect_refusal({"predict", run_.string(), "--input", (scratch_.path() / "none").string()}, 1,
                 "cannot read " + (scratch_.path() / "none").string());
  fs::remove(run_ / "checkpoint-best.safetensors");
  expect_refusal(words("[MAX 1 2 ]\n"), 1, "has no checkpoint-best.safetensors");
  expect_refusal({"predict", data_.string(), "--input", file}, 1, "is not a run folder");
}

TEST_F(PredictTest, EndsAtCtrlC) {
  ASSERT_NO_FATAL_FAILURE(train_run());
  std::string lines;
  for (int i = 0; i < 200'000; ++i) lines += "[MAX 1 2 ]\n";
  Program program(words(lines));
  std::this_thread::sleep_for(std::chrono::milliseconds(700));
  program.send(SIGINT);
  const ProgramResult result = program.wait();
  EXPECT_EQ(result.status, 130) << result.err;
  EXPECT_EQ(result.out, "");
}

TEST_F(PredictTest, RefusesARunThatPredictsTokens) {
  ASSERT_NO_FATAL_FAILURE(train_run({"--objective", "masked"}));
  expect_refusal(words("[MAX 1 2 ]\n"), 2, "the run predicts tokens and no classes of samples");
}

}  // namespace
}  // namespace lra
