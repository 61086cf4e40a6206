// What words on a command line mean, and what is said of those that mean nothing.
#include <gtest/gtest.h>

#include "harness/commands/commands.h"
#include "tests/harness/program.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

// What the program says when it refuses its words as wrong usage.
std::string usage_error(const std::vector<std::string>& words, int status = 2) {
  const ProgramResult result = run_program(words);
  EXPECT_EQ(result.status, status) << result.text();
  EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
  return result.err;
}

std::vector<std::string> train_words(const std::vector<std::string>& more) {
  std::vector<std::string> words = {"train",  "--task", "listops", "--data",
                                    "nodata", "--run",  "norun"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(WordsTest, NoNumberIsInNoRange) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"profile", "--tolerance", "nan"},
                                             {"profile", "--seconds", "NaN"},
                                             {"selfcheck", "--minutes", "-nan"},
                                             {"suite", "--max-hours", "nan"},
                                             {"fidelity", "--seconds", "nan"}}) {
    EXPECT_TRUE(contains(usage_error(words), words[1] + ": Value " + words[2] + " not in range ["))
        << words[0];
  }
  EXPECT_TRUE(
      contains(usage_error({"profile", "--tolerance", "-1"}), "--tolerance: Value -1 not in"));
}

// An unset variable of a shell, and what C reads as octal.
TEST(WordsTest, EmptyValuesAndZerosInFrontAreNoValues) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"profile", "--compare", ""},
                                             {"profile", "--batch", ""},
                                             {"fidelity", "--out", "f", "--run", ""},
                                             {"report", "x", "--out", "r", "--tensorboard", ""},
                                             {"report", "x", "--out", ""},
                                             {"evaluate", "x", "--data", ""},
                                             {"data", "verify", ""}})
    EXPECT_TRUE(contains(usage_error(words), " is empty, which is not the same as without it"))
        << words[1];
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"profile", "--heads", "010"},
           {"profile", "--lengths", "0512"},
           {"fidelity", "--out", "f", "--length", "050"},
           {"data", "prepare", "listops", "--out", "d", "--train", "0100"},
           {"suite", "--jobs", "02"}})
    EXPECT_TRUE(contains(usage_error(words), " without zeros in front, not 0")) << words[1];
  EXPECT_TRUE(contains(usage_error({"data", "prepare", "listops", "--min-length", "-5"}),
                       "--min-length: Value -5 not in range 0 to 1099511627776"));
}

TEST(WordsTest, WhatIsNoUtf8StandsInNoRecord) {
  for (const char* option : {"--run", "--data"})
    EXPECT_TRUE(
        contains(usage_error(train_words({option, "b\xff"})), "'b\\xff' is not UTF-8, which"))
        << option;
  EXPECT_FALSE(contains(usage_error(train_words({"--run", "bär"})), "UTF-8"));
}

struct Unused {
  std::vector<std::string> words;
  std::string said;
};

TEST(WordsTest, WhatWouldHaveNoEffectIsRefused) {
  const std::string suite_folder = "nosuite";
  const Unused all[] = {
      {{"profile", "--out", "p.jsonl", "--tolerance", "0.2"}, "--tolerance requires --compare"},
      {{"profile", "--out", "p.jsonl", "--flush", "64MiB"},
       "--flush overwrites a GPU's cache: on --device cpu leave it out"},
      {{"profile", "--out", "p.jsonl", "--memory-limit", "1GiB", "--device", "cuda"},
       "--memory-limit applies to CPUs and to --batch largest alone: on cuda leave it out"},
      {{"profile", "--out", "p.jsonl", "--scope", "core", "--batch", "1", "--protocol", "tay2020"},
       "--protocol applies to --scope model"},
      {{"profile", "--out", "p.jsonl", "--scope", "core", "--batch", "1", "--task", "text"},
       "--task applies to --scope model"},
      {train_words({"--attention", "standard", "--memory-limit", "1GiB", "--device", "cuda"}),
       "--memory-limit applies to CPUs alone: with --device cuda leave it out"},
      {train_words({"--attention", "standard", "--objective", "masked", "--set",
                    "training.objective=causal"}),
       "--objective is short for --set training.objective: give one of them"},
      {{"fidelity", "--out", "f.jsonl", "--experiment", "1", "--seconds", "1"},
       "--seconds applies to experiment 4 alone, not 1"},
      {{"suite", "--budget", "smoke", "--out", suite_folder, "--records", "."},
       "--records is what lra suite plan and --max-hours predict from: give --max-hours too"},
      {{"suite", "submit", "--slurm", "--budget", "smoke", "--out", suite_folder, "--records", "."},
       "--records is what lra suite plan and --max-hours predict from"},
      {{"suite", "submit", "--slurm", "--budget", "smoke", "--gpus", "1", "--device", "cpu"},
       "--gpus 1 and --device cpu: give one of the two"},
      {{"suite", "status", "--out", suite_folder, "--watch", "--json"}, "--watch excludes --json"},
      {{"suite", "status", "--out", suite_folder, "--jobs", "2"},
       "--jobs is not of lra suite status, which reads the suite in --out"},
      {{"check", "--explain", "padding invariance", "--json"}, "--json"},
      {{"list", "attentions", "nystrom", "--try"}, "--try"},
  };
  for (const Unused& one : all) {
    const std::string error = usage_error(one.words);
    EXPECT_TRUE(contains(error, one.said)) << "expected: " << one.said << "\ngot: " << error;
  }
  EXPECT_FALSE(fs::exists("p.jsonl") || fs::exists("f.jsonl") || fs::exists(suite_folder));
}

TEST(WordsTest, AListNamesEachOnce) {
  const std::string attentions = "standard,nystrom[num_landmarks=8],standard";
  for (const char* command : {"profile", "selfcheck", "fidelity"}) {
    EXPECT_TRUE(contains(usage_error({command, "--attentions", attentions, "--out", "p.jsonl"}),
                         "--attentions names standard twice"))
        << command;
  }
  EXPECT_TRUE(contains(usage_error({"profile", "--lengths", "512,64,512", "--out", "p.jsonl"}),
                       "--lengths names 512 twice"));
  EXPECT_TRUE(contains(usage_error({"fidelity", "--length", "1Ki,1024", "--out", "f.jsonl"}),
                       "--length names 1024 twice"));
  EXPECT_TRUE(
      contains(usage_error({"selfcheck", "--checks", "contract,contract", "--out", "s.jsonl"}),
               "--checks names contract twice"));
}

TEST(WordsTest, ANumberIsAskedForByItsKind) {
  EXPECT_TRUE(contains(usage_error(train_words({"--attention", "standard", "--threads", "x"})),
                       "--threads should be an integer, not 'x'"));
  EXPECT_TRUE(contains(usage_error({"profile", "--threads", "1.5", "--out", "p.jsonl"}),
                       "--threads should be an integer, not '1.5'"));
  EXPECT_TRUE(
      contains(usage_error(train_words({"--attention", "standard", "--set", "optimizer.beta1=1"})),
               "optimizer: beta1 should be at least 0 and less than 1, not 1"));
}

TEST(WordsTest, SizesAreReadAsGnuProgramsReadThem) {
  const auto bytes = [](const std::string& text) { return parse_bytes("--memory-limit", text); };
  const int64_t kibi = 1024;
  EXPECT_EQ(bytes("7"), 7);
  EXPECT_EQ(bytes("7B"), 7);
  EXPECT_EQ(bytes("1.5KiB"), 1536);
  EXPECT_EQ(bytes("512 MiB"), 512 * kibi * kibi);
  for (const char* text : {"8GiB", "8gib", "8Gi", "8G", "8g"})
    EXPECT_EQ(bytes(text), 8 * kibi * kibi * kibi) << text;
  EXPECT_EQ(bytes("2T"), 2 * kibi * kibi * kibi * kibi);
  for (const char* text : {"8GB", "8gb"}) EXPECT_EQ(bytes(text), 8'000'000'000) << text;
  EXPECT_EQ(bytes("5MB"), 5'000'000);
  EXPECT_EQ(bytes("5kB"), 5'000);
  for (const char* text :
       {"", "G", "-1G", "0", "0.5", "5xy", "8GiBs", "8G 1", "8 G B", "9999999TB"})
    EXPECT_THROW(bytes(text), UsageError) << text;
}

TEST(WordsTest, ALengthIsANumberOrCountsIn1024) {
  const auto settled = [](std::string text) {
    const std::string wrong = length_text()(text);
    return wrong.empty() ? text : wrong;
  };
  EXPECT_EQ(settled("512"), "512");
  EXPECT_EQ(settled("1Ki"), "1024");
  EXPECT_EQ(settled("2ki"), "2048");
  EXPECT_EQ(settled("1Mi"), "1048576");
  EXPECT_EQ(settled("4k"), "'4k' may be 4000 or 4096: write one of them, or 4Ki");
  EXPECT_TRUE(contains(settled("128-256"), "write them out, as 128,192,256"));
  EXPECT_TRUE(contains(settled("128..256"), "write them out"));
  EXPECT_TRUE(contains(settled("zwei"), "should be a comma list of tokens, as 512,1024"));
  EXPECT_TRUE(contains(usage_error({"profile", "--lengths", "64,1k", "--out", "p.jsonl"}),
                       "lra: --lengths: '1k' may be 1000 or 1024"));
  EXPECT_TRUE(contains(usage_error({"fidelity", "--length", "64-128", "--out", "f.jsonl"}),
                       "write them out"));
}

TEST(WordsTest, SeedsMayBeRanges) {
  using Numbers = std::vector<uint64_t>;
  EXPECT_EQ(parse_numbers("0-2,7", 10), (Numbers{0, 1, 2, 7}));
  EXPECT_EQ(parse_numbers("5", 10), Numbers{5});
  EXPECT_EQ(parse_numbers("18446744073709551615", 10), Numbers{UINT64_MAX});
  for (const char* text : {"2-0", "0-", "-3", "a", "0..2", "1,,2", "0-18446744073709551615"})
    EXPECT_FALSE(parse_numbers(text, 10)) << text;
  const ProgramResult plan =
      run_program({"suite", "plan", "--json", "--budget", "smoke", "--attentions", "standard",
                   "--seeds", "0-1,5", "--out", "nosuite", "--threads", "1"});
  ASSERT_EQ(plan.status, 0) << plan.err;
  const json cells = json::parse(plan.out)["cells"];
  ASSERT_EQ(cells.size(), 3u);
  EXPECT_EQ(cells[2]["seed"], 5);
  EXPECT_TRUE(contains(usage_error({"suite", "--budget", "smoke", "--seeds", "0..2"}),
                       "as 0,1,2 or 0-4,7, not '0..2'"));
}

TEST(WordsTest, AnAttentionInAnotherFormIsTold) {
  const auto told = [](const std::string& attention) {
    return usage_error(train_words({"--attention", attention}));
  };
  EXPECT_TRUE(contains(told("nystrom(num_landmarks=32)"), "options stand in square brackets"));
  EXPECT_TRUE(contains(told("nystrom,standard"), "one attention is wanted here, not a list"));
  EXPECT_TRUE(contains(told("my.pt"), "write torchscript:my.pt"));
  EXPECT_TRUE(contains(told("./folder/x"), "write torchscript:./folder/x"));
  EXPECT_TRUE(contains(told("my.cpp"), "export LRA_EXTRA_VARIANTS=FILE.cpp"));
  EXPECT_TRUE(contains(told("my.py"), "write python:my.py:CLASS"));
  EXPECT_TRUE(contains(told("my.py:A[width=2]"), "write python:my.py:A[width=2]"));
  EXPECT_TRUE(contains(told("standrad"), "did you mean 'standard'?"));
  EXPECT_TRUE(
      contains(usage_error({"profile", "--attentions", "standard,my.pt", "--out", "p.jsonl"}),
               "write torchscript:my.pt"));
}

TEST(WordsTest, BracketsAndOptionsMayNotContradict) {
  EXPECT_EQ(attention_given("nystrom[num_landmarks=32]", {"num_landmarks=32"}).options,
            (json{{"num_landmarks", 32}}));
  EXPECT_EQ(attention_given("nystrom[num_landmarks=32]", {"seed=1"}).options.size(), 2u);
  EXPECT_THROW(attention_given("nystrom", {"num_landmarks=8", "num_landmarks=16"}), UsageError);
  EXPECT_TRUE(contains(usage_error(train_words({"--attention", "nystrom[num_landmarks=32]",
                                                "--option", "num_landmarks=16"})),
                       "--option num_landmarks=16 contradicts num_landmarks=32"));
}

TEST(WordsTest, AnOptionThatIsASettingIsTold) {
  EXPECT_TRUE(contains(usage_error(train_words({"--attention", "standard", "--lr", "0.001"})),
                       "unknown option '--lr' in lra train; settings are given by --set: "
                       "optimizer.lr=0.001"));
  EXPECT_TRUE(contains(usage_error(train_words({"--attention", "standard", "--batch=8"})),
                       "--set: training.batch=8, or evaluation.batch=8"));
  EXPECT_TRUE(contains(usage_error({"suite", "--steps", "10"}),
                       "settings are given by --set: training.steps=10"));
  EXPECT_TRUE(contains(usage_error(train_words({"--learning-rate"})), "optimizer.lr=VALUE"));
  EXPECT_TRUE(contains(usage_error({"evaluate", "run", "--steps", "10"}), "valid: --help"))
      << "it has no --set";
}

TEST(WordsTest, AListWithoutANameIsRefused) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"suite", "plan", "--budget", "smoke"},
        {"profile", "--out", "p.jsonl"},
        {"fidelity", "--out", "f.jsonl"}}) {
    std::vector<std::string> all = words;
    all.insert(all.end(), {"--attentions", ""});
    EXPECT_TRUE(contains(usage_error(all), "--attentions: names none; leave the option out"))
        << words.front();
  }
  EXPECT_TRUE(contains(usage_error({"suite", "plan", "--tasks", " "}), "--tasks: names none"));
}

TEST(WordsTest, HintsNameCommandsThatWork) {
  const std::string text = usage_error(
      {"train", "--task", "text", "--attention", "standard", "--data", "nodata", "--run", "norun"},
      /*status=*/1);
  EXPECT_TRUE(contains(text, "lra data prepare text --source SOURCE --out nodata; SOURCE: aclImdb"))
      << text;
  EXPECT_TRUE(contains(usage_error(train_words({"--attention", "standard"}), /*status=*/1),
                       "lra data prepare listops --out nodata\n"));
  EXPECT_TRUE(contains(usage_error({"suite", "status", "--out", "nosuite"}, /*status=*/1),
                       "lra suite --out nosuite makes one there"));
  EXPECT_TRUE(contains(usage_error({"evaluate", "norun"}, /*status=*/1),
                       "lra train --run norun makes one"));
}

TEST(WordsTest, AShownProtocolLoadsAgain) {
  const Scratch scratch;
  const std::string file = (scratch.path() / "mine.json").string();
  write_file(file, run_program({"protocol", "show", "tay2020"}).out);
  const ProgramResult same = run_program({"protocol", "diff", "tay2020", file, "--lines"});
  EXPECT_EQ(same.status, 0) << same.err;
  EXPECT_EQ(same.out, "");
}

TEST(WordsTest, PrintedJsonHoldsNoControls) {
  const Scratch scratch;
  const fs::path file = scratch.path() / "a\u202e\u2066\u0085\x7f.pt";
  fs::copy_file(fs::path(LRA_SOURCE_DIR) / "tests/fixtures/torchscript-wrong_shape.pt", file);
  const std::string name = "torchscript:" + file.string();
  const std::string out = run_program({"check", "--json", "--attention", name}).out;
  for (const char* control : {"\u202e", "\u2066", "\u0085", "\x7f"})
    EXPECT_FALSE(contains(out, control)) << out;
  EXPECT_TRUE(contains(out, "a\\u202e\\u2066\\u0085\\u007f.pt")) << out;
  EXPECT_EQ(json::parse(out)["attention"]["options"]["file"], file.string());
}

}  // namespace
}  // namespace lra
