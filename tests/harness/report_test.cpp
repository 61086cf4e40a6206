// `lra report` as a user runs it.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "lra/files.h"
#include "results/records.h"
#include "tests/harness/program.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

class ReportCommand : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_ / "runs/a"); }

  void write(const std::string& name, const std::string& text) const {
    write_file(folder_ / name, text);
  }
  std::string read(const std::string& name) const { return read_file(folder_ / name); }
  std::string in(const std::string& name) const { return (folder_ / name).string(); }
  ProgramResult report(const std::string& path) const {
    return run_program({"report", in(path), "--out", in("out")});
  }

  Scratch scratch_;
  const fs::path folder_ = scratch_.path();
};

std::string a_result() {
  Result r;
  r.task = "listops";
  r.attention = {.name = "standard", .label = "standard", .options = json::object()};
  r.protocol = "lra-strict";
  r.test = Accuracy{.accuracy = 0.375, .correct = 750, .count = 2000, .ci95 = {}, .by_length = {}};
  r.data.fingerprint = "abc";
  return make_result(r).dump();
}

TEST_F(ReportCommand, WritesTheFilesAndPrintsTheTables) {
  write("runs/a/result.json", a_result());
  write("runs/broken.jsonl", "{\"schema\": ");
  const ProgramResult outcome = report("runs");
  EXPECT_EQ(outcome.status, 0) << outcome.text();
  EXPECT_NE(outcome.text().find("37.50 [35.40, 39.64]"), std::string::npos) << outcome.text();
  EXPECT_NE(outcome.text().find("broken.jsonl: line 1: not valid JSON"), std::string::npos)
      << outcome.text();
  EXPECT_NE(read("out/report.md").find("37.50 \\[35.40, 39.64\\]"), std::string::npos);
  EXPECT_NE(read("out/accuracy.csv").find("37.5000"), std::string::npos);
  EXPECT_TRUE(fs::exists(folder_ / "out/accuracy.tex"));
}

TEST_F(ReportCommand, SaysWhatItLookedForWhereThereIsNothing) {
  const ProgramResult outcome = report("runs");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(
      outcome.text().find("nothing to report in " + in("runs") +
                          ": looked for result.json (lra.result/1) and *.jsonl (lra.profile/1, "
                          "lra.fidelity/1)"),
      std::string::npos)
      << outcome.text();
  EXPECT_FALSE(fs::exists(folder_ / "out"));
}

TEST_F(ReportCommand, NamesAPathThatIsMissing) {
  const ProgramResult outcome = report("nowhere");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.text().find(in("nowhere") + ": no such file or folder"), std::string::npos)
      << outcome.text();
}

TEST_F(ReportCommand, RefusesAFileForItsFolder) {
  write("out", "x");
  const ProgramResult outcome = report("runs");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_NE(outcome.text().find("is a file; name a folder"), std::string::npos) << outcome.text();
}

}  // namespace
}  // namespace lra
