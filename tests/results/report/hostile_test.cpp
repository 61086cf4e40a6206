// Whatever stands in a record: each of its texts made hostile, each of its numbers made absurd.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <regex>

#include "results/report/html_report.h"
#include "results/report/report.h"
#include "results/store/store.h"
#include "tests/results/examples.h"

namespace lra {
namespace {

// What HTML, Markdown, LaTeX, gnuplot, shells, spreadsheets and terminals would each run.
const std::string kHostile =
    "=1+1</td></title></pre><script>alert(1)</script><img src=x onerror=alert(2)>\"'`|\\$(x) "
    "![a](http://e.org) \\input{/etc/passwd} %s {} \x1b[31m \xE2\x80\xAE \xC2\x9B end\n@EOD\nEOD";

json a_result() {
  Result r = example_result();
  r.dev = r.test;
  r.reason = "none";
  r.machine.gpu = "GPU";
  r.config["nested"] = {{"deep", {"list", 2}}, {"word", "x"}};
  return make_result(r);
}

json a_profile() {
  Profile p = example_profile("standard", 512, 1, 1);
  p.package = "theirs";
  p.reason = "none";
  p.noisy = "somebody else";
  p.flops = 1e9;
  p.least_bytes = 1e6;
  p.roofline = Roofline{.gflops = 100, .gigabytes_per_second = 10};
  p.batch_policy = "tokens=1";
  p.protocol = "lra-strict";
  p.task = "listops";
  p.sets = {"training.steps=1"};
  p.method = {{"passes", 1}, {"seconds", 2}, {"word", "x"}};
  p.machine.gpu = "GPU";
  p.software = {{"lra", "1"}};
  return make_profile(p);
}

json a_fidelity() {
  Fidelity f;
  f.experiment = 4;
  f.attention = {.name = "nystrom", .label = "nystrom", .options = {{"word", "x"}}};
  f.budget = "num_landmarks";
  f.budget_value = 8;
  f.length = 512;
  f.heads = f.trials = 2;
  f.head_dim = 64;
  f.dtype = "float32";
  f.device = "cpu";
  f.data = {.source = "run",
            .task = "listops",
            .attention = "standard",
            .protocol = "lra-strict",
            .seed = 1,
            .step = 2,
            .synthetic = true,
            .fingerprint = "abc",
            .identity = "def"};
  f.layer = 0;
  f.reason = "none";
  f.measures = {{"output", estimate_of({0.5, 0.25})}};
  f.time = ProfileTime{
      .median = 1.5, .min = 1, .iqr = 0.5, .ci95 = stats::Interval{1, 2}, .samples = {1, 2}};
  f.memory = ProfileMemory{.peak = 20};
  f.flops = 1e9;
  f.threads = 2;
  f.machine = {.processor = "Xeon", .cores = 2, .memory_gib = 8, .gpu = "GPU"};
  f.software = {{"lra", "1"}};
  return make_fidelity(f);
}

json a_where() {
  Where record = example_where("standard");
  record.machine.gpu = "GPU";
  return make_where(record);
}

// One record of those four, read.
Records read(const json& record) {
  Records records;
  const auto schema = record.at("schema").get<std::string>();
  if (schema == kResultSchema) records.results = {parse_result(record)};
  if (schema == kProfileSchema) records.profiles = {parse_profile(record)};
  if (schema == kFidelitySchema) records.fidelity = {parse_fidelity(record)};
  if (schema == kWhereSchema) records.where = {parse_where(record)};
  return records;
}

bool can_be_read(const json& record) {
  try {
    read(record);
    return true;
  } catch (const std::runtime_error&) {
    return false;
  }
}

// Every value inside that is neither an object nor an array.
void each_leaf(json& value, const std::string& path,
               const std::function<void(json&, const std::string&)>& visit) {
  if (!value.is_structured()) return visit(value, path);
  for (const auto& item : value.items())
    each_leaf(item.value(), value.is_array() ? path : item.key(), visit);
}

// Everything that is written and printed of records, by name.
std::map<std::string, std::string> everything(const Records& records) {
  auto files = make_report(records);
  for (auto& [name, page] : make_pages(records, {}, {})) files[name] = page;
  files["terminal"] = summary_text(records) + bad_files_text(records);
  return files;
}

// The cells of each line, as RFC 4180 reads them; no line where it is not that.
std::vector<std::vector<std::string>> csv_cells(const std::string& text) {
  std::vector<std::vector<std::string>> rows(1, {""});
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    std::string& cell = rows.back().back();
    if (quoted) {
      quoted = text[i] != '"' || text.compare(i, 2, "\"\"") == 0;
      if (quoted) cell += text[i];
      if (text.compare(i, 2, "\"\"") == 0) ++i;
    } else if (text[i] == '"') {
      if (!cell.empty()) return {};
      quoted = true;
    } else if (text[i] == ',') {
      rows.back().emplace_back();
    } else if (text.compare(i, 2, "\r\n") == 0) {
      rows.push_back({""});
      ++i;
    } else {
      cell += text[i];
    }
  }
  rows.pop_back();
  return rows;
}

void expect_harmless(const std::string& name, const std::string& text) {
  SCOPED_TRACE(name);
  for (const char* control : {"\x1b", "\xE2\x80\xAE", "\xC2\x9B"})
    EXPECT_FALSE(contains(text, control));
  if (name.ends_with(".html") || name.ends_with(".md")) {
    EXPECT_FALSE(contains(text, "<script"));
    EXPECT_FALSE(contains(text, "<img src=x"));
    EXPECT_FALSE(contains(text, "<td></title>"));
  }
  if (name.ends_with(".md")) {
    EXPECT_FALSE(contains(text, "![a](http"));
  }
  if (name.ends_with(".tex")) {
    EXPECT_FALSE(std::regex_search(text, std::regex(R"(\\input|[^\\]%s|[^\\]\$\(x)")));
  }
  if (name.ends_with(".gp")) {
    // It never gets out of its quotes, nor ends the data.
    EXPECT_FALSE(contains(text, "`"));
    EXPECT_FALSE(contains(text, "\n@EOD"));
    EXPECT_FALSE(contains(text, "=alert(2)>'"));
  }
  if (name.ends_with(".json")) {
    EXPECT_FALSE(json::parse(text, nullptr, /*allow_exceptions=*/false).is_discarded());
  }
  if (name.ends_with(".csv")) {
    const auto rows = csv_cells(text);
    ASSERT_GT(rows.size(), 1u);
    for (const auto& row : rows) {
      EXPECT_EQ(row.size(), rows[0].size());
      for (const std::string& cell : row)
        EXPECT_FALSE(cell.starts_with("=") || cell.starts_with("@")) << cell;
    }
  }
}

TEST(HostileRecords, EveryTextStaysText) {
  for (const json& sound : {a_result(), a_profile(), a_fidelity(), a_where()}) {
    json record = sound;
    SCOPED_TRACE(sound.at("schema").get<std::string>());
    std::vector<std::string> replaced;
    each_leaf(record, "", [&](json& leaf, const std::string& name) {
      if (!leaf.is_string()) return;
      const json was = leaf;
      leaf = kHostile;
      if (can_be_read(record)) {
        replaced.push_back(name);
      } else {
        leaf = was;  // it may be one of some words alone
      }
    });
    EXPECT_GE(replaced.size(), 9u);
    const bool reasoned = sound.at("schema") != kWhereSchema;  // what has no status has no reason
    for (const char* name : {"name", "processor", "gpu", "dtype", "reason", "lra"})
      EXPECT_EQ(std::ranges::count(replaced, name), name == std::string("reason") ? reasoned : 1)
          << name;
    for (const char* name : {"software", "config", "method"}) {
      if (record.contains(name)) record[name][kHostile] = {{kHostile, kHostile}};
    }
    record["attention"]["options"][kHostile] = kHostile;
    if (record.contains("config")) record["config"]["overridden"] = {kHostile, "dtype"};

    Records records = read(record);
    records.bad = {{kHostile, kHostile}};
    for (auto& result : records.results) result.path = kHostile;
    for (auto& profile : records.profiles) profile.path = kHostile;
    for (auto& where : records.where) where.path = kHostile;
    const auto files = everything(records);
    for (const auto& [name, text] : files) expect_harmless(name, text);
    EXPECT_TRUE(contains(files.at("report.html"), "&lt;script&gt;alert(1)"));
  }
}

TEST(HostileRecords, EveryNumberIsRefusedByItsNameOrReported) {
  const json absurd[] = {1e308,  -1e308,    1e149,     -1,         0,
                         1e-300, INT64_MAX, INT64_MIN, UINT64_MAX, nullptr};
  for (const json& sound : {a_result(), a_profile(), a_fidelity(), a_where()}) {
    json record = sound;
    int refused = 0, reported = 0;
    each_leaf(record, "", [&](json& leaf, const std::string& name) {
      if (!leaf.is_number()) return;
      const json was = leaf;
      for (const json& value : absurd) {
        leaf = value;
        SCOPED_TRACE(fmt::format("{} = {}", name, value.dump()));
        const std::string reason = error_text<std::exception>([&] { read(record); });
        if (reason != "(no error)") {
          EXPECT_TRUE(contains(reason, name) || contains(reason, "ci95") ||
                      contains(reason, "examples"))
              << reason;
          ++refused;
          continue;
        }
        ++reported;
        for (const auto& [file, text] : everything(read(record))) {
          // A digit for every power of ten says nothing and bursts every table.
          EXPECT_FALSE(std::regex_search(text, std::regex("[0-9]{24}"))) << file;
          EXPECT_FALSE(std::regex_search(text, std::regex(R"(\b-?(nan|inf)\b)"))) << file;
        }
      }
      leaf = was;
    });
    EXPECT_GT(refused, 20);
    EXPECT_GT(reported, 20);
  }
}

TEST(HostileRecords, ABoundOfWhatIsMeasuredIsSaid) {
  json record = a_result();
  record["training"]["seconds"] = 1e308;
  EXPECT_EQ(error_text<std::exception>([&] { parse_result(record); }),
            "field 'training.seconds' should be a number from 0 to 1e+150, not 1e+308");
  record["training"]["seconds"] = -1;
  EXPECT_EQ(error_text<std::exception>([&] { parse_result(record); }),
            "field 'training.seconds' should be a number of at least 0, not -1");
}

}  // namespace
}  // namespace lra
