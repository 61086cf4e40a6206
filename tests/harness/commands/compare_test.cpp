// `lra compare` as a user runs it.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "attention_variants/base/files.h"
#include "results/records/result.h"
#include "tests/harness/program.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

class CompareCommand : public testing::Test {
 protected:
  // A run of 200 examples, right at the first `correct`.
  void write(const std::string& name, int64_t correct, uint64_t seed = 0,
             const std::string& protocol = "lra-strict") const {
    Result r;
    r.task = "listops";
    r.attention = {.name = name.substr(0, name.find('/')), .label = "", .options = json::object()};
    r.protocol = protocol;
    r.seed = seed;
    r.test = Accuracy{.accuracy = static_cast<double>(correct) / 200,
                      .correct = correct,
                      .count = 200,
                      .ci95 = {},
                      .by_length = {}};
    r.data.fingerprint = "abc";
    std::string predictions = "index,label,predicted\n";
    for (int i = 0; i < 200; ++i)
      predictions += std::to_string(i) + ",1," + (i < correct ? "1" : "0") + "\n";
    fs::create_directories(folder_ / name);
    write_file(folder_ / name / "result.json", make_result(r).dump());
    write_file(folder_ / name / "predictions-test.csv", predictions);
  }
  std::string in(const std::string& name) const { return (folder_ / name).string(); }
  ProgramResult compare(std::vector<std::string> words) const {
    words.insert(words.begin(), "compare");
    return run_program(std::move(words));
  }

  Scratch scratch_;
  const fs::path folder_ = scratch_.path();
};

TEST_F(CompareCommand, PrintsATableOrJson) {
  write("nystrom", 100);
  write("standard", 90);
  const ProgramResult table = compare({in("nystrom"), in("standard")});
  EXPECT_EQ(table.status, 0) << table.text();
  EXPECT_NE(table.out.find("50.00 [43.14, 56.86]"), std::string::npos) << table.out;
  EXPECT_NE(table.out.find("p = 0.001953"), std::string::npos) << table.out;  // 2 / 2^10
  const ProgramResult text = compare({in("nystrom"), in("standard"), "--json"});
  EXPECT_EQ(text.status, 0) << text.text();
  const json value = json::parse(text.out);
  EXPECT_EQ(value["schema"], "lra.compare/1");
  EXPECT_EQ(value["mcnemar"]["only_a"], 10);
}

TEST_F(CompareCommand, TakesFoldersOfSeeds) {
  write("nystrom/seed0", 100, 0);
  write("nystrom/seed1", 104, 1);
  write("standard/seed0", 80, 0);
  write("standard/seed1", 82, 1);
  const ProgramResult outcome = compare({in("nystrom"), in("standard"), "--json"});
  EXPECT_EQ(outcome.status, 0) << outcome.text();
  EXPECT_TRUE(json::parse(outcome.out).contains("welch"));
}

TEST_F(CompareCommand, RefusesWhatIsNotComparableInOneLine) {
  write("nystrom", 100);
  write("standard", 90, 0, "tay2020");
  const ProgramResult outcome = compare({in("nystrom"), in("standard")});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.err, "lra: cannot compare runs of different protocols: lra-strict in " +
                             in("nystrom/result.json") + ", tay2020 in " +
                             in("standard/result.json") + "\n");
  const ProgramResult one = compare({in("nystrom"), in(".")});
  EXPECT_EQ(one.status, 2);
  EXPECT_NE(one.err.find("is on both sides, of " + in("nystrom")), std::string::npos) << one.err;
  fs::create_directories(folder_ / "empty");
  EXPECT_EQ(
      compare({in("nystrom"), in("empty")}).err,
      "lra: " + in("empty") + " holds no run: looked for result.json in it and its folders\n");
  EXPECT_EQ(compare({in("nystrom"), in("nowhere")}).err,
            "lra: " + in("nowhere") + ": no such file or folder\n");
}

}  // namespace
}  // namespace lra
