// `lra report` as a user runs it.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "results/records.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

struct Outcome {
  int status = 0;
  std::string out;  // with what went to stderr
};

Outcome run_report(const std::string& arguments) {
  const std::string command = std::string(LRA_PROGRAM) + " report " + arguments + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  Outcome outcome;
  std::array<char, 4096> buffer;
  while (const size_t count = fread(buffer.data(), 1, buffer.size(), pipe))
    outcome.out.append(buffer.data(), count);
  outcome.status = WEXITSTATUS(pclose(pipe));
  return outcome;
}

class ReportCommand : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "lra_report_XXXXXX").string();
    folder_ = mkdtemp(name.data());
    fs::create_directories(folder_ / "runs/a");
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
  }
  std::string read(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(folder_ / name).rdbuf();
    return text.str();
  }
  std::string in(const std::string& name) const { return (folder_ / name).string(); }

  fs::path folder_;
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
  const Outcome outcome = run_report(in("runs") + " --out " + in("out"));
  EXPECT_EQ(outcome.status, 0) << outcome.out;
  EXPECT_NE(outcome.out.find("37.50 [35.40, 39.64]"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("broken.jsonl: line 1: not valid JSON"), std::string::npos)
      << outcome.out;
  EXPECT_NE(read("out/report.md").find("37.50 \\[35.40, 39.64\\]"), std::string::npos);
  EXPECT_NE(read("out/accuracy.csv").find("37.5000"), std::string::npos);
  EXPECT_TRUE(fs::exists(folder_ / "out/accuracy.tex"));
}

TEST_F(ReportCommand, SaysWhatItLookedForWhereThereIsNothing) {
  const Outcome outcome = run_report(in("runs") + " --out " + in("out"));
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.out.find("nothing to report in " + in("runs") +
                             ": looked for result.json (lra.result/1) and *.jsonl (lra.profile/1)"),
            std::string::npos)
      << outcome.out;
  EXPECT_FALSE(fs::exists(folder_ / "out"));
}

TEST_F(ReportCommand, NamesAPathThatIsMissing) {
  const Outcome outcome = run_report(in("nowhere") + " --out " + in("out"));
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.out.find(in("nowhere") + ": no such file or folder"), std::string::npos)
      << outcome.out;
}

TEST_F(ReportCommand, RefusesAFileForItsFolder) {
  write("out", "x");
  const Outcome outcome = run_report(in("runs") + " --out " + in("out"));
  EXPECT_EQ(outcome.status, 2);
  EXPECT_NE(outcome.out.find("is a file; name a folder"), std::string::npos) << outcome.out;
}

}  // namespace
}  // namespace lra
