// Records of self-checks, and their table.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "results/print/table.h"
#include "results/selfcheck/record.h"
#include "results/selfcheck/table.h"

namespace lra {
namespace {

Selfcheck example_selfcheck(const std::string& attention, Finding finding) {
  Selfcheck record{.check = "parity-float32", .finding = finding, .device = "cuda:0"};
  if (!attention.empty()) record.attention = AttentionRecord{.name = attention, .label = attention};
  record.threads = 2;
  record.seconds = 0.5;
  return record;
}

TEST(SelfcheckRecord, ComesBackAsItWas) {
  Selfcheck record = example_selfcheck("a", Finding::failed);
  record.reason = "why";
  record.error = BoundedError{.what = "the output", .value = 0.5, .limit = 0.1};
  record.measures = {.length = 512, .batch = 2, .step_ms = 3.5};
  record.software = {{"lra", "0.1.0"}};
  const json written = make_selfcheck(record);
  EXPECT_EQ(written["schema"], kSelfcheckSchema);
  EXPECT_EQ(written["status"], "failed");
  EXPECT_EQ(written["measures"], (json{{"length", 512}, {"batch", 2}, {"step_ms", 3.5}}));
  EXPECT_EQ(make_selfcheck(parse_selfcheck(written)), written);
  // Of the machine, and without what a check has not.
  const json plain = make_selfcheck(example_selfcheck("", Finding::ok));
  for (const char* absent : {"attention", "reason", "error", "measures"})
    EXPECT_FALSE(plain.contains(absent)) << absent;
  EXPECT_EQ(make_selfcheck(parse_selfcheck(plain)), plain);
}

TEST(SelfcheckRecord, AnErrorThatIsNotFiniteIsBeyondAnyLimit) {
  Selfcheck record = example_selfcheck("a", Finding::failed);
  record.error = BoundedError{.what = "x", .value = std::nullopt, .limit = 1};
  const json written = make_selfcheck(record);
  EXPECT_TRUE(written["error"]["value"].is_null());
  const Selfcheck read = parse_selfcheck(written);
  EXPECT_EQ(read.error->share(), std::numeric_limits<double>::infinity());
  EXPECT_EQ((BoundedError{.what = "x", .value = 1e-9, .limit = 0}).share(),
            std::numeric_limits<double>::infinity());
  EXPECT_EQ((BoundedError{.what = "x", .value = 0, .limit = 0}).share(), 0);
  EXPECT_EQ((BoundedError{.what = "x", .value = 3, .limit = 2}).share(), 1.5);
}

TEST(SelfcheckRecord, RefusesWhatItIsNot) {
  json written = make_selfcheck(example_selfcheck("a", Finding::ok));
  written["status"] = "fine";
  EXPECT_THROW(parse_selfcheck(written), std::runtime_error);
  written["status"] = "ok";
  written["schema"] = "lra.selfcheck/2";
  EXPECT_THROW(parse_selfcheck(written), std::runtime_error);
}

TEST(SelfcheckTable, HasARowForEachAttentionAndSaysWhatFailed) {
  std::vector<Selfcheck> records = {
      example_selfcheck("", Finding::ok), example_selfcheck("a", Finding::ok),
      example_selfcheck("a", Finding::failed), example_selfcheck("b", Finding::skipped),
      example_selfcheck("b", Finding::crash)};
  records[1].error = BoundedError{.what = "x", .value = 1e-5, .limit = 1e-4};
  records[2].error = BoundedError{.what = "y", .value = 0.2, .limit = 0.1};
  records[2].check = "step";
  records[2].reason = "y is 0.2";
  records[3].reason = "no graph on a CPU";
  records[4].reason = "ended by signal 9";
  records[1].measures.step_ms = 12.5;
  const Table table = selfcheck_table(records);
  ASSERT_EQ(table.rows.size(), 3u);
  using Row = std::vector<std::string>;
  EXPECT_EQ(table.rows[0], (Row{"(machine)", "1", "0", "0", "–", "–", "–", "–", "–", "–"}));
  EXPECT_EQ(table.rows[1], (Row{"a", "1", "1", "0", "0.2", "0.1", "step", "–", "–", "12.5"}));
  EXPECT_EQ(table.rows[2], (Row{"b", "0", "1", "1", "–", "–", "–", "–", "–", "–"}));
  ASSERT_EQ(table.notes.size(), 4u);
  EXPECT_EQ(table.notes[0], "a, step: failed: y is 0.2");
  EXPECT_EQ(table.notes[1], "b, parity-float32: crash: ended by signal 9");
  EXPECT_EQ(table.notes[2], "skipped 1 times: parity-float32: no graph on a CPU");
  EXPECT_NE(table.notes[3].find("cuda:0"), std::string::npos);
}

}  // namespace
}  // namespace lra
