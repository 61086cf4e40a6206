// Tables that are committed beside their records are those that the program makes of them.
#include <gtest/gtest.h>

#include <filesystem>
#include <regex>
#include <string>
#include <vector>

#include "attention_variants/base/files.h"
#include "tests/harness/program.h"
#include "tests/support/scratch.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

struct CommittedReport {
  const char *records, *report;  // below results/measured
};

std::vector<fs::path> pictures_in(const fs::path& folder) {
  std::vector<fs::path> pictures;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".svg") pictures.push_back(entry.path());
  }
  return pictures;
}

std::vector<fs::path> pictures_beside(const fs::path& report) {
  const std::string text = read_file(report);
  static const std::regex kPicture(R"(\(([^()]+\.svg)\))");
  for (std::sregex_iterator it(text.begin(), text.end(), kPicture), end; it != end; ++it)
    EXPECT_TRUE(fs::exists(report.parent_path() / (*it)[1].str())) << report << ": " << (*it)[1];
  return pictures_in(report.parent_path());
}

// Of other records, by the commands of table1/README.md.
bool is_drawn_otherwise(const fs::path& picture) { return picture.filename() == "memory.svg"; }

// "Produced by GNUPLOT 5.4 patchlevel 4"
std::string drawn_by(const std::string& svg) {
  const size_t begin = svg.find("Produced by"), end = svg.find('<', begin);
  return begin == std::string::npos ? "" : svg.substr(begin, end - begin);
}

class CommittedReports : public testing::TestWithParam<CommittedReport> {};

TEST_P(CommittedReports, AreWhatTheirRecordsGive) {
  const fs::path measured = LRA_SOURCE_DIR "/results/measured";
  const Scratch scratch;
  const fs::path out = scratch.path() / "report", records = measured / GetParam().records,
                 committed = measured / GetParam().report;
  const ProgramResult made = run_program({"report", records.string(), "--out", out.string()});
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_EQ(read_file(out / "report.md"), read_file(committed))
      << "./run report " << records << " --out report; cp report/report.md " << committed;
  const bool draws = !pictures_in(out).empty();  // there is gnuplot
  for (const fs::path& picture : pictures_beside(committed)) {
    const fs::path drawn = out / picture.filename();
    if (!draws || is_drawn_otherwise(picture)) continue;
    ASSERT_TRUE(fs::exists(drawn)) << picture << " is drawn no more";
    const std::string now = read_file(drawn), then = read_file(picture);
    if (drawn_by(now) != drawn_by(then)) continue;  // another gnuplot draws other lines
    EXPECT_TRUE(now == then) << "./run report " << records << " --out report; cp report/"
                             << picture.filename() << " " << picture;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Measured, CommittedReports,
    testing::Values(CommittedReport{"quick", "quick/report.md"},
                    CommittedReport{"smoke", "smoke/report.md"},
                    CommittedReport{"fidelity", "fidelity/report.md"},
                    CommittedReport{"table1/t1.jsonl", "table1/report.md"},
                    CommittedReport{"core/inference.jsonl", "core/inference/report.md"},
                    CommittedReport{"core/training.jsonl", "core/training/report.md"},
                    CommittedReport{"step/step.jsonl", "step/report.md"}));

}  // namespace
}  // namespace lra
