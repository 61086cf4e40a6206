// A report in a folder.
#include "harness/report/write_report.h"

#include <gtest/gtest.h>

#include <string>

#include "attention_variants/base/files.h"
#include "tests/harness/program.h"

namespace lra {
namespace {

// As suites measured one whose file had changed since its runs.
TEST(WriteReport, RowsOfCostAreNamedByTheFilesOfTheRuns) {
  const json options = {{"file", "my.py"}, {"class", "A"}, {"sha256", std::string(64, '1')}};
  Result r;
  r.task = "listops";
  r.attention = {.name = "python", .label = "python:my.py:A", .options = options};
  r.protocol = "lra-strict";
  r.test = Accuracy{.accuracy = 0.375, .correct = 750, .count = 2000, .ci95 = {}, .by_length = {}};
  r.data.fingerprint = "abc";
  const std::string kept = "runs/listops/python_my.py_A/seed0/attention.py";
  Profile p;
  p.attention = {.name = "python", .label = "python:" + kept + ":A", .options = options};
  p.attention.options["file"] = kept;
  p.length = p.batch = p.heads = p.head_dim = 8;
  p.dtype = "float32";
  p.device = "cpu";
  p.time = ProfileTime{.median = 1, .samples = {1}};
  p.memory = ProfileMemory{.peak = 1};
  const Records records{.results = {r}, .profiles = {p}, .fidelity = {}, .where = {}, .bad = {}};
  const Scratch scratch;
  const std::filesystem::path out = scratch.path() / "report";
  write_report(records, out);
  for (const char* file : {"accuracy.csv", "memory_time.csv", "memory_time.tex"})
    EXPECT_TRUE(contains(read_file(out / file), "python:my.py:A")) << file;
  EXPECT_FALSE(contains(read_file(out / "report.md"), "seed0/attention.py"));
}

}  // namespace
}  // namespace lra
