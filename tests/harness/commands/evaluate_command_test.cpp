// lra evaluate as a user meets it, and --quiet over all commands.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "lra/config/settings.h"
#include "lra/formats/safetensors.h"
#include "tests/harness/program.h"

namespace lra {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

class RunCommandTest : public testing::Test {
 protected:
  void train_run() {
    prepare_tiny_listops(data_);
    const ProgramResult result = run_program(tiny_train(data_, run_, "standard", 6));
    ASSERT_EQ(result.status, 0) << result.err;
    EXPECT_NE(result.err, "") << "progress, without --quiet";
  }
  Words evaluate_words(const Words& more = {}) const {
    Words words = {"evaluate", run_.string(), "--threads", "1"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  Scratch scratch_;
  const fs::path data_ = scratch_.path() / "data", run_ = scratch_.path() / "run";
};

TEST_F(RunCommandTest, EvaluatePrintsTheNumbersOfTheRun) {
  ASSERT_NO_FATAL_FAILURE(train_run());
  const ProgramResult result = run_program(evaluate_words());
  ASSERT_EQ(result.status, 0) << result.err;
  const json test = read_json(run_ / kResultFile)["test"];
  const std::string counts = std::to_string(test["correct"].get<int64_t>()) + "/50, ";
  EXPECT_TRUE(result.out.starts_with("test accuracy ")) << result.out;
  EXPECT_NE(result.out.find(counts), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("checkpoint best of step "), std::string::npos) << result.out;
  const ProgramResult last = run_program(evaluate_words({"--checkpoint", "last", "--json"}));
  EXPECT_EQ(json::parse(last.out)["step"], 6);
}

TEST_F(RunCommandTest, EvaluateRefusesWhatIsNoRunFolder) {
  expect_refusal(evaluate_words(), 1, run_.string() + " is not a run folder (no config.json)");
  fs::create_directories(run_);
  expect_refusal(evaluate_words(), 1, run_.string() + " is not a run folder (no config.json)");
  const fs::path config = run_ / kConfigFile;
  write_file(config, "{\"task\": ");
  expect_refusal(evaluate_words(), 1, config.string());
  write_file(config, "{}");
  expect_refusal(evaluate_words(), 1, config.string() + " is not a run's configuration");
  expect_refusal({"evaluate"}, 2, "RUN is required");
}

TEST_F(RunCommandTest, EvaluateNamesWhatIsDamagedInAConfiguration) {
  ASSERT_NO_FATAL_FAILURE(train_run());
  const fs::path file = run_ / kConfigFile;
  const json whole = read_json(file);
  const auto refused = [&](const char* at, const json& value, const std::string& message) {
    json damaged = whole;
    damaged[json::json_pointer(at)] = value;
    write_json(file, damaged);
    expect_refusal(evaluate_words(), 1, file.string() + message);
  };
  refused("/data", 3, ": data should be a JSON object, not 3");
  refused("/data/directory", 3, ": data: directory should be a string, not 3");
  refused("/data/fingerprint", true, ": data: fingerprint should be a string, not true");
  refused("/training/steps", "many", ".training: steps should be an integer");
  refused("/seed", "none", " is not a run's configuration: type must be number, but is string");
}

TEST_F(RunCommandTest, EvaluateRefusesACheckpointItCannotTrust) {
  ASSERT_NO_FATAL_FAILURE(train_run());
  const fs::path best = run_ / kBestCheckpoint;
  const std::string whole = read_file(best);

  fs::remove(best);
  expect_refusal(
      evaluate_words(), 1,
      "has no checkpoint-best.safetensors, though the run has ended; the same lra train with "
      "--overwrite makes it anew");
  fs::rename(run_ / kResultFile, run_ / "aside");
  expect_refusal(
      evaluate_words(), 1,
      "has no checkpoint-best.safetensors yet; the same lra train with --resume goes on");
  fs::rename(run_ / "aside", run_ / kResultFile);
  EXPECT_EQ(run_program(evaluate_words({"--checkpoint", "last"})).status, 0) << "it is not needed";

  write_file(best, whole.substr(0, whole.size() / 2));
  expect_refusal(evaluate_words(), 1, best.string());
  expect_refusal(evaluate_words(), 1, "truncated");
  write_file(best, whole.substr(0, 100));
  expect_refusal(evaluate_words(), 1, best.string() + ": the header should be ");
  write_file(best, "");
  expect_refusal(evaluate_words(), 1, best.string() + " is no safetensors file");

  std::string flipped = whole;
  flipped.back() = static_cast<char>(flipped.back() ^ 1);
  write_file(best, flipped);
  expect_refusal(evaluate_words(), 1, best.string() + " is damaged");

  write_tensors(best, {.tensors = {{"a", torch::zeros({1})}}, .metadata = {}});
  expect_refusal(evaluate_words(), 1, best.string() + " is not a checkpoint of this program");

  write_file(best, whole);
  json config = read_json(run_ / kConfigFile);
  config["seed"] = 7;
  write_json(run_ / kConfigFile, config);
  expect_refusal(evaluate_words(), 1,
                 best.string() + " belongs to another configuration (seed: 0 -> 7)");
  write_file(run_ / kConfigFile, "{\"a");
  expect_refusal(evaluate_words(), 1, "; put it back, or train anew with --overwrite");
  write_file(run_ / kConfigFile, "null");
  expect_refusal(evaluate_words(), 1, " is not the configuration of a run");
  config["seed"] = 0;
  write_json(run_ / kConfigFile, config);
  EXPECT_EQ(run_program(evaluate_words()).status, 0) << "the whole file serves again";
}

TEST_F(RunCommandTest, EvaluateRefusesDataThatAreNotTheRuns) {
  ASSERT_NO_FATAL_FAILURE(train_run());
  const fs::path moved = scratch_.path() / "moved", other = scratch_.path() / "other";
  fs::rename(data_, moved);
  expect_refusal(evaluate_words(), 1, "say where they are with --data");
  EXPECT_EQ(run_program(evaluate_words({"--data", moved.string()})).status, 0);

  task("listops").prepare({.out = other,
                           .seed = 6,
                           .train = 16,
                           .dev = 16,
                           .test = 16,
                           .min_length = 10,
                           .max_length = 60});
  expect_refusal(evaluate_words({"--data", other.string()}), 1, " is of other data (fingerprint ");
  expect_refusal(evaluate_words({"--data", scratch_.path().string()}), 1, " holds no listops, ");

  const fs::path split = moved / "listops" / "test.safetensors";
  std::string bytes = read_file(split);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_file(split, bytes);
  expect_refusal(evaluate_words({"--data", moved.string()}), 1, split.string() + " has SHA-256 ");
}

TEST_F(RunCommandTest, EvaluateRefusesWrongUsage) {
  ASSERT_NO_FATAL_FAILURE(train_run());
  expect_refusal(evaluate_words({"--split", "val"}), 2, "--split: val not in {train,dev,test}");
  expect_refusal(evaluate_words({"--checkpoint", "worst"}), 2, "--checkpoint: worst not in ");
  expect_refusal(evaluate_words({"--device", "gpu"}), 2,
                 "--device should be cpu, cuda or cuda:N, not 'gpu'");
  expect_refusal({"evaluate", run_.string(), "--threads=-1"}, 2,
                 "--threads should be at least 0 and at most 1024, not -1");
  expect_refusal(evaluate_words({"--splt", "dev"}), 2,
                 "unknown option '--splt' in lra evaluate; did you mean '--split'?");
}

TEST_F(RunCommandTest, QuietLeavesStderrEmpty) {
  const auto quiet = [](Words words) {
    words.insert(words.begin(), "--quiet");
    const ProgramResult result = run_program(words);
    EXPECT_EQ(result.status, 0) << words[1];
    EXPECT_EQ(result.err, "") << words[1];
  };
  const std::string data = data_.string(), run = run_.string();
  const std::string cells = (scratch_.path() / "cells.jsonl").string();
  const Words prepare = {"data",    "prepare",      "listops", "--out",        data,
                         "--train", "64",           "--dev",   "16",           "--test",
                         "16",      "--min-length", "10",      "--max-length", "60"};
  quiet(prepare);
  quiet(prepare);  // "already prepared" is a note
  quiet({"data", "verify", data});
  quiet(tiny_train(data_, run_, "standard", 6));
  quiet(tiny_train(data_, run_, "standard", 6));  // "finished already" is a note
  quiet({"evaluate", run});
  quiet({"profile", "--attentions", "standard", "--lengths", "64", "--scope", "core", "--seconds",
         "0.02", "--threads", "1", "--out", cells});
  quiet({"report", run, cells, "--out", (scratch_.path() / "report").string()});
  quiet({"list", "tasks"});

  json set = json::object();
  for (const std::string& text : tiny_settings(6)) {
    set[text.substr(0, text.find('='))] = value_from_text(text.substr(text.find('=') + 1));
  }
  const fs::path budget = scratch_.path() / "tiny.json";
  write_json(budget, {{"schema", "lra.budget/1"},
                      {"name", "tiny"},
                      {"tasks", {{"listops", {{"set", set}}}}},
                      {"profile", {{"lengths", "64"}, {"seconds", 0.02}}}});
  quiet({"suite", "--budget", budget.string(), "--attentions", "standard", "--data", data, "--out",
         (scratch_.path() / "suite").string(), "--threads", "1"});
}

}  // namespace
}  // namespace lra
