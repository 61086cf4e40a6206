// docs/report.md and docs/profile.md name every field that the records have.
#include <gtest/gtest.h>

#include <filesystem>
#include <regex>
#include <sstream>

#include "results/analysis/compare_runs.h"
#include "results/records/fidelity.h"
#include "results/records/profile.h"
#include "results/selfcheck/record.h"
#include "results/where/record.h"
#include "tests/results/examples.h"

namespace lra {
namespace {

std::string read_text(const std::string& name) {
  std::ifstream in(LRA_SOURCE_DIR "/" + name);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// Every key of an object, and of those and the arrays of objects in it; not of what users name.
void keys_of(const json& value, std::vector<std::string>& keys) {
  if (value.is_array() && !value.empty()) keys_of(value[0], keys);
  if (!value.is_object()) return;
  for (const auto& [key, inner] : value.items()) {
    keys.push_back(key);
    if (key != "options" && key != "software" && key != "config") keys_of(inner, keys);
  }
}

void expect_documented(const json& record, const std::string& text) {
  std::vector<std::string> keys;
  keys_of(record, keys);
  ASSERT_FALSE(keys.empty());
  for (const std::string& key : keys) {
    const bool named = contains(text, "`" + key + "`") || contains(text, "." + key + "`") ||
                       contains(text, "." + key + "[]`") || contains(text, "`" + key + "[]`") ||
                       contains(text, "`" + key + ".");
    EXPECT_TRUE(named || key == "schema") << key;
  }
}

void expect_documented(const json& record) {
  static const std::string text = read_text("docs/report.md");
  ASSERT_TRUE(contains(text, "## `result.json`"));
  expect_documented(record, text);
}

TEST(Documented, EveryFieldOfAResult) {
  Result r = example_result();
  r.dev = r.test;
  r.reason = "why";
  r.machine.gpu = "H100";
  r.metric = "masked_token_accuracy";
  r.pretrained = example_pretraining();
  expect_documented(make_result(r));
}

TEST(Documented, EveryFieldOfAFidelityLine) {
  Fidelity f;
  f.attention = {.name = "nystrom", .label = "nystrom", .options = json::object()};
  f.budget = "num_landmarks";
  f.length = f.heads = f.head_dim = f.trials = 1;
  f.data = {.source = "run",
            .task = "t",
            .attention = "a",
            .protocol = "p",
            .fingerprint = "f",
            .identity = "i"};
  f.layer = 0;
  f.status = Status::oom;
  f.reason = "why";
  f.threads = 1;
  f.flops = 1;
  for (const MeasureName& measure : kMeasures)
    f.measures.emplace_back(measure.name, estimate_of({1, 2}));
  json line = make_fidelity(f);
  expect_documented(line);
}

TEST(Documented, EveryFieldOfASelfcheck) {
  Selfcheck record;
  record.attention = AttentionRecord{.name = "nystrom", .label = "nystrom"};
  record.finding = Finding::failed;
  record.reason = "why";
  record.error = BoundedError{.what = "x", .value = 1, .limit = 1};
  SelfcheckMeasures& m = record.measures;
  m.length = m.batch = 1;
  m.core_ms = m.core_training_ms = m.step_ms = m.gflops = m.gigabytes_per_second = 1;
  m.roofline_share = m.account_mib = m.counted_mib = m.reserved_mib = 1;
  json line = make_selfcheck(record);
  for (const char* shared : {"attention", "machine"}) {
    expect_documented(line[shared]);
    line[shared] = nullptr;
  }
  const std::string text = read_text("docs/gpu.md");
  ASSERT_TRUE(contains(text, "## The record"));
  expect_documented(line, text.substr(text.find("## The record")));
}

TEST(Documented, EveryFieldOfWhereAStepsTimeGoes) {
  Where record;
  record.attention = {.name = "standard", .label = "standard"};
  record.sets = {"model.layers=1"};
  record.heads = record.head_dim = 1;
  record.settings_sha256 = record.protocol_sha256 = record.own_settings_sha256 =
      std::string(64, 'a');
  record.ops = {{.op = "aten::mm", .part = "head", .flops = 1, .bytes = 1, .roofline = 1}};
  json line = make_where(record);
  for (const char* shared : {"attention", "machine"}) {
    expect_documented(line[shared]);
    line[shared] = nullptr;
  }
  const std::string text = read_text("docs/profile.md");
  const size_t begin = text.find("## Where a step's time goes");
  ASSERT_NE(begin, std::string::npos);
  expect_documented(line, text.substr(begin));
}

// Those of `method` are the profiler's: its tests look for them.
TEST(Documented, EveryFieldOfAProfile) {
  Profile p = example_profile("nystrom", 1024, 1, 2);
  p.package = "p";
  p.reason = p.noisy = "why";
  p.time->passes = {{.samples = 1,
                     .warm_up = 1,
                     .others = 0.5,
                     .mhz = 1,
                     .reference = stats::Interval{1, 2},
                     .device_ms = 1,
                     .noisy = "why"}};
  p.memory->optimizer = p.memory->process_peak = p.memory->reserved = p.memory->device = 1;
  p.flops = p.least_bytes = 1;
  p.roofline = Roofline{.gflops = 1, .gigabytes_per_second = 1};
  p.batch_policy = "tokens=16384";
  p.protocol = p.task = "x";
  p.sets = {"a.b=1"};
  p.settings_sha256 = p.protocol_sha256 = p.own_settings_sha256 = std::string(64, 'a');
  json line = make_profile(p);
  for (const char* shared : {"attention", "machine"}) {
    expect_documented(line[shared]);
    line[shared] = nullptr;
  }
  const std::string text = read_text("docs/profile.md");
  ASSERT_TRUE(contains(text, "## The record"));
  expect_documented(line, text.substr(text.find("## The record")));
}

// D1 to D22 of docs/testing.md, each with tests that there are.
TEST(Documented, EveryTrapHasItsTests) {
  std::string tests;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(LRA_SOURCE_DIR "/tests")) {
    if (entry.path().extension() != ".cpp") continue;
    tests += read_text(std::filesystem::relative(entry.path(), LRA_SOURCE_DIR).string());
  }
  std::istringstream lines(read_text("docs/testing.md"));
  const std::regex name("`(\\w+)\\.(\\w+)`");
  int trap = 0;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("| D")) continue;
    EXPECT_TRUE(line.starts_with("| D" + std::to_string(++trap) + " |")) << line;
    int named = 0;
    for (std::sregex_iterator it(line.begin(), line.end(), name), end; it != end; ++it, ++named) {
      const std::string after = "(" + (*it)[1].str() + ", " + (*it)[2].str() + ")";
      EXPECT_TRUE(contains(tests, "TEST" + after) || contains(tests, "TEST_F" + after) ||
                  contains(tests, "TEST_P" + after))
          << it->str();
    }
    EXPECT_GE(named, 1) << line;
  }
  EXPECT_EQ(trap, 22);
}

TEST(Documented, EveryFieldOfAComparison) {
  const auto right = [](int64_t i) { return i < 40; };
  const std::vector<Result> one{with_predictions(example_result("a", 0), 100, right)},
      a{one[0], with_predictions(example_result("a", 1), 100, right)},
      b{with_predictions(example_result("b", 0), 100, right),
        with_predictions(example_result("b", 1), 100, right)};
  expect_documented(comparison_json(compare_runs(a, b)));
  expect_documented(comparison_json(compare_runs(one, std::span(b).first(1))));
}

}  // namespace
}  // namespace lra
