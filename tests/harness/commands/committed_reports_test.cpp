// Tables that are committed beside their records are those that the program makes of them.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "attention_variants/base/files.h"
#include "tests/harness/program.h"
#include "tests/support/scratch.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

struct CommittedReport {
  const char *records, *report;  // below results/measured
};

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
}

INSTANTIATE_TEST_SUITE_P(Measured, CommittedReports,
                         testing::Values(CommittedReport{"quick", "quick/report.md"},
                                         CommittedReport{"smoke", "smoke/report.md"},
                                         CommittedReport{"fidelity", "fidelity/report.md"},
                                         CommittedReport{"table1/t1.jsonl", "table1/report.md"},
                                         CommittedReport{"core/inference.jsonl",
                                                         "core/inference.md"},
                                         CommittedReport{"core/training.jsonl", "core/training.md"},
                                         CommittedReport{"step/step.jsonl", "step/report.md"}));

}  // namespace
}  // namespace lra
