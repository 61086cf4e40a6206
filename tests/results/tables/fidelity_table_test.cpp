// Fidelity lines: the record, its tables and its plots.
#include "results/tables/fidelity_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "results/plots/plots.h"
#include "results/report/report.h"
#include "results/store/store.h"
#include "tests/results/examples.h"

namespace lra {
namespace {

Fidelity cell(const std::string& label, int64_t value, std::vector<double> output) {
  Fidelity f;
  f.experiment = 4;
  f.attention = {.name = label, .label = label, .options = {{"blocks", value}, {"other", 1}}};
  f.budget = "blocks";
  f.budget_value = value;
  f.length = 512;
  f.heads = 2;
  f.head_dim = 32;
  f.trials = static_cast<int64_t>(output.size());
  f.seed = 7;
  f.dtype = "float32";
  f.device = "cpu";
  f.measures = {{"output", estimate_of(std::move(output))}};
  f.threads = 2;
  f.machine = {.processor = "Xeon", .cores = 2, .memory_gib = 8, .gpu = ""};
  f.software = {{"lra", "0.1.0"}};
  return f;
}

Fidelity timed(Fidelity f, double ms, double mib) {
  f.time = ProfileTime{.median = ms, .min = ms, .iqr = 0.0, .ci95 = {}, .samples = {ms}};
  f.memory = ProfileMemory{.peak = mib, .parameters = {}, .analytic = {}};
  return f;
}

Fidelity of_run(Fidelity f) {
  f.data = {.source = "run",
            .task = "listops",
            .attention = "standard",
            .protocol = "lra-strict",
            .seed = 3,
            .step = 950,
            .synthetic = true,
            .fingerprint = std::string(64, 'a'),
            .identity = std::string(64, 'b')};
  f.layer = 1;
  return f;
}

TEST(FidelityTable, TimesAreOfOneProcessorAndSetOfKernels) {
  const auto tables_of = [](const Fidelity& a, const Fidelity& b) {
    return fidelity_tables(std::vector<Fidelity>{a, b}).size();
  };
  const Fidelity a = timed(cell("a", 8, {0.1}), 10, 1);
  Fidelity b = timed(cell("b", 8, {0.2}), 20, 1);
  const size_t together = tables_of(a, b);
  b.software["kernels"] = "avx2";
  EXPECT_EQ(tables_of(a, b), 2 * together);
  b.software.erase("kernels");
  b.machine.processor_model = "family 26";
  EXPECT_EQ(tables_of(a, b), 2 * together);
  EXPECT_TRUE(contains(fidelity_tables(std::vector<Fidelity>{b})[0].title, "8 GiB, family 26"));
}

TEST(FidelityRecord, ComesBackAsItWent) {
  const Fidelity f = of_run(timed(cell("a[x=1]", 8, {0.5, 0.25, 0.75}), 1.5, 20));
  const Fidelity back = parse_fidelity(make_fidelity(f));
  EXPECT_EQ(make_fidelity(back), make_fidelity(f));
  EXPECT_EQ(back.identity(), f.identity());
  EXPECT_EQ(back.layer, 1);
  EXPECT_TRUE(back.data.synthetic);
}

TEST(FidelityRecord, EstimatesAreThoseOfTheSamples) {
  const TrialEstimate e = estimate_of({1, 2, 3, 6});
  EXPECT_DOUBLE_EQ(e.mean, 3);
  EXPECT_DOUBLE_EQ(*e.sd, std::sqrt(14.0 / 3));
  // t(3 degrees of freedom, 97.5 %) = 3.182446
  EXPECT_NEAR(e.ci95->high - 3, 3.182446 * std::sqrt(14.0 / 3) / 2, 1e-6);
  EXPECT_DOUBLE_EQ(e.median, 2.5);
  EXPECT_DOUBLE_EQ(e.worst, 6);
  const TrialEstimate one = estimate_of({4});
  EXPECT_FALSE(one.sd || one.ci95);
}

TEST(FidelityRecord, IdentityIsTheCellAndNotWhatCameOut) {
  const Fidelity f = cell("a", 8, {0.5, 0.25});
  Fidelity other = timed(cell("a", 8, {9, 9}), 1, 1);
  other.status = Status::oom;
  other.software = {{"lra", "9"}};
  EXPECT_EQ(other.identity(), f.identity());
  for (const auto& change : std::vector<std::function<void(Fidelity&)>>{
           [](Fidelity& x) { x.experiment = 3; }, [](Fidelity& x) { x.budget_value = 9; },
           [](Fidelity& x) { x.attention.options["other"] = 2; }, [](Fidelity& x) { x.length = 1; },
           [](Fidelity& x) { x.heads = 1; }, [](Fidelity& x) { x.head_dim = 1; },
           [](Fidelity& x) { x.trials = 1; }, [](Fidelity& x) { x.seed = 1; },
           [](Fidelity& x) { x.dtype = "bfloat16"; }, [](Fidelity& x) { x.device = "cuda:0"; },
           [](Fidelity& x) { x = of_run(x); }, [](Fidelity& x) { x.threads = 1; },
           [](Fidelity& x) { x.machine.processor = "Epyc"; }}) {
    Fidelity changed = f;
    change(changed);
    EXPECT_NE(changed.identity(), f.identity());
  }
}

TEST(FidelityRecord, RefusesWhatIsMissingOrWrong) {
  const auto with = [](const char* pointer, const json& value) {
    json record = make_fidelity(of_run(cell("a", 8, {0.5, 0.25})));
    record[json::json_pointer(pointer)] = value;
    return error_text<std::exception>([&] { parse_fidelity(record); });
  };
  EXPECT_EQ(with("/length", 0), "field 'length' should be an integer of at least 1, not 0");
  EXPECT_EQ(with("/status", "fine").substr(0, 34), "field 'status' should be one of ok");
  EXPECT_EQ(with("/measures", json::object()), "field 'measures' holds none that is known");
  EXPECT_EQ(with("/measures/output/samples", json::array()),
            "field 'measures.output.samples' should be an array of numbers, not an array");
  EXPECT_EQ(with("/measures/output/samples", {-1}),
            "field 'measures.output.samples' should be a number of at least 0, not -1");
  EXPECT_EQ(with("/data/synthetic", "no"),
            "field 'data.synthetic' should be true or false, not \"no\"");
  EXPECT_EQ(with("/budget", 3), "budget should be an object, not 3");
}

TEST(FidelityTables, HoldMeansWithIntervalsByBudget) {
  Fidelity failed = cell("b", 16, {1, 1});
  failed.measures.clear();
  failed.status = Status::unsupported;
  failed.reason = "too long";
  Fidelity exact = cell("exact", 0, {0.001, 0.001});
  exact.budget.clear();
  const std::vector<Fidelity> cells = {timed(cell("a", 8, {0.4, 0.6}), 1.5, 20),
                                       cell("a", 16, {0.2, 0.2}), cell("b", 8, {0.3, 0.3}), failed,
                                       exact};
  const std::vector<Table> tables = fidelity_tables(cells);
  ASSERT_EQ(tables.size(), 2u);
  EXPECT_EQ(
      tables[0].title,
      "All approximations, random gaussian: relative error of the output, Frobenius norm; "
      "length 512, 2 heads of 32, 2 trials, seed 7, float32, cpu, 2 threads, on Xeon, 2 cores, 8 "
      "GiB");
  EXPECT_EQ(tables[0].columns[1].header, "no budget");
  EXPECT_EQ(tables[0].columns[2].header, "blocks = 8");
  // t(1 degree of freedom) = 12.7062; half = 12.7062 * 0.141421 / sqrt(2)
  EXPECT_EQ(tables[0].rows,
            (std::vector<std::vector<std::string>>{{"a", "–", "0.5 ± 1.27", "0.2 ± 0"},
                                                   {"b", "–", "0.3 ± 0", "unsupported"},
                                                   {"exact", "0.001 ± 0", "–", "–"}}));
  EXPECT_EQ(tables[0].notes.back(), "unsupported: b at blocks=16: too long");
  EXPECT_TRUE(contains(tables[1].title, "time and memory"));
  EXPECT_EQ(tables[1].rows[0][2], "20.0 / 1.5");
}

TEST(FidelityTables, SayWhereACellWasMeasuredTwice) {
  const char* note = "a cell that was measured more than once shows its last line";
  std::vector<Fidelity> cells{cell("a", 4, {1, 2}), cell("a", 8, {1, 2})};
  EXPECT_FALSE(contains(to_text(fidelity_tables(cells).at(0)), note));
  cells.push_back(cell("a", 4, {9, 9}));
  EXPECT_TRUE(contains(to_text(fidelity_tables(cells).at(0)), note));
}

TEST(FidelityTables, KeepSettingsApart) {
  Fidelity layer0 = of_run(cell("a", 8, {0.5}));
  layer0.layer = 0;
  Fidelity other_run = of_run(cell("a", 8, {0.5}));
  other_run.data.identity = "c";
  const std::vector<Fidelity> cells = {cell("a", 8, {0.5}), of_run(cell("a", 8, {0.5})), layer0,
                                       other_run};
  const std::vector<Table> tables = fidelity_tables(cells);
  EXPECT_EQ(tables.size(), 4u);
  size_t marked = 0;
  for (const Table& table : tables)
    marked += contains(table.title, "synthetic stand-in data") ? 1 : 0;
  EXPECT_EQ(marked, 3u) << "data that stand in for real ones are named as such";
}

TEST(FidelityTables, RowsTellOptionsAndTypesApart) {
  Fidelity option = cell("a", 8, {0.5}), type = cell("a", 8, {0.5});
  option.attention.options["other"] = 2;
  type.dtype = "bfloat16";
  const std::vector<Fidelity> cells = {cell("a", 8, {0.5}), option, type};
  const std::vector<Table> tables = fidelity_tables(cells);
  ASSERT_EQ(tables.size(), 1u);
  std::vector<std::string> names;
  for (const auto& row : tables[0].rows) names.push_back(row[0]);
  EXPECT_EQ(names, (std::vector<std::string>{"a {other=1}, bfloat16", "a {other=1}, float32",
                                             "a {other=2}, float32"}));
}

TEST(FidelityTables, OfManyBudgetsShowPowersOfTwoTheWidthAndTheLast) {
  std::vector<Fidelity> cells;
  for (int64_t m = 1; m <= 50; ++m) {
    cells.push_back(cell("a", m, {1.0}));
    cells.back().head_dim = 10;
  }
  const Table table = fidelity_tables(cells)[0];
  std::vector<std::string> headers;
  for (const Column& column : table.columns) headers.push_back(column.header);
  EXPECT_EQ(headers, (std::vector<std::string>{"attention", "blocks = 1", "2", "4", "8", "9", "10",
                                               "11", "16", "32", "50"}));
  EXPECT_TRUE(contains(table.notes[0], "10 of 50 budgets are shown"));
  EXPECT_EQ(fidelity_long(cells).rows.size(), 50u) << "the long form has all";
}

TEST(FidelityTables, OfIterationsShowThePapersSixToo) {
  std::vector<Fidelity> cells;
  for (int64_t steps = 1; steps <= 20; ++steps) {
    cells.push_back(cell("a", steps, {1.0}));
    cells.back().experiment = 3;
  }
  const Table table = fidelity_tables(cells)[0];
  std::vector<std::string> headers;
  for (const Column& column : table.columns) headers.push_back(column.header);
  EXPECT_EQ(headers, (std::vector<std::string>{"attention", "blocks = 1", "2", "4", "6", "8", "12",
                                               "16", "18", "20"}));
}

TEST(FidelityTables, ConditionNumbersAreMedianAndWorst) {
  Fidelity f = cell("a", 8, {1});
  f.measures = {{"condition", estimate_of({10, 20, 900})}};
  const std::vector<Fidelity> cells = {f};
  EXPECT_EQ(fidelity_tables(cells)[0].rows[0][1], "20.0 / 900");
  EXPECT_TRUE(fidelity_plots(cells).empty());
}

std::map<std::string, std::string> fidelity_scripts(std::span<const Fidelity> cells) {
  std::map<std::string, std::string> scripts;
  for (const Plot& plot : fidelity_plots(cells)) scripts[plot.name] = plot_script(plot);
  return scripts;
}

TEST(FidelityPlots, HoldTheirDataAndNameTheirFiles) {
  const std::vector<Fidelity> cells = {timed(cell("a", 8, {0.4, 0.6}), 1.5, 20),
                                       timed(cell("a", 16, {0.25, 0.25}), 3, 40)};
  const auto plots = fidelity_scripts(cells);
  ASSERT_EQ(plots.size(), 2u);
  const std::string& script = plots.at("fidelity-4-1-output");
  // The interval reaches below zero, where a logarithmic axis ends.
  EXPECT_TRUE(contains(script, "$d0 << EOD\n8 0.5 0.05 1.77062\n16 0.25 0.25 0.25\nEOD\n"))
      << script;
  EXPECT_TRUE(contains(script, "set output 'fidelity-4-1-output.svg'"));
  EXPECT_TRUE(contains(script, "set output 'fidelity-4-1-output.pdf'"));
  EXPECT_TRUE(contains(plots.at("fidelity-4-1-time"), "\n1.5 0.5 0.05 1.77062\n3 0.25"));
}

TEST(FidelityPlots, LeaveOutWhatHasNoPlace) {
  Fidelity failed = cell("b", 8, {1});
  failed.status = Status::diverged;
  const std::vector<Fidelity> cells = {cell("a", 8, {0}), failed};
  EXPECT_TRUE(fidelity_plots(cells).empty());
}

TEST(FidelityPlots, HostileRecordsStayText) {
  const std::string hostile = "'\n`touch x`\n\"; system('touch x') #\\";
  Fidelity f = of_run(cell("a", 8, {0.5}));
  f.attention.label = f.budget = f.data.task = f.machine.processor = hostile;
  const std::vector<Fidelity> cells = {parse_fidelity(make_fidelity(f))};
  for (const auto& [name, script] : fidelity_scripts(cells)) {
    EXPECT_TRUE(contains(script, "`touch x`")) << script;
    EXPECT_FALSE(contains(outside_quotes(script), "touch")) << script;
  }
}

TEST(FidelityReport, HasTablesPlotsAndProvenance) {
  Records records;
  records.fidelity = {cell("a", 8, {0.4, 0.6})};
  auto files = make_report(records);
  std::vector<std::string> names;
  for (const auto& [name, content] : files) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"fidelity-4-1-output.gp", "fidelity.csv",
                                             "fidelity.tex", "report.md"}));
  EXPECT_TRUE(contains(files["report.md"], "](fidelity-4-1-output.svg)"));
  EXPECT_TRUE(contains(files["report.md"], "## Provenance"));
  EXPECT_TRUE(contains(summary_text(records), "0.5 ± 1.27"));
}

}  // namespace
}  // namespace lra
