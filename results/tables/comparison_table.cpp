#include "results/tables/comparison_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

namespace lra {
namespace {

std::string percent_text(double fraction) { return fmt::format("{:.2f}", 100 * fraction); }

std::string seeds_text(const ComparedSide& side) {
  std::vector<uint64_t> seeds;
  for (const Result* r : side.runs) seeds.push_back(r->seed);
  return fmt::format("{}", fmt::join(seeds, ", "));
}

// Of two runs on the same examples.
Table counts_table(const RunComparison& c) {
  const PairedCounts& counts = *c.counts;
  const int64_t all = counts.both + counts.only_a + counts.only_b + counts.neither;
  Table table{.title = "Test examples by who predicted them rightly",
              .columns = {{"predicted rightly by", Align::kLeft}, {"examples"}, {"%"}}};
  const auto row = [&](const std::string& who, int64_t count) {
    table.rows.push_back({who, fmt::format("{}", count),
                          percent_text(static_cast<double>(count) / static_cast<double>(all))});
  };
  row("both", counts.both);
  const bool same = c.a.name == c.b.name;
  row((same ? "the first" : c.a.name) + " alone", counts.only_a);
  row((same ? "the second" : c.b.name) + " alone", counts.only_b);
  row("neither", counts.neither);
  return table;
}

}  // namespace

std::vector<Table> comparison_tables(const RunComparison& c) {
  Table table{.title = fmt::format("{}: {}", c.task, c.recipe),
              .columns = {{"", Align::kLeft}, {c.a.name}, {c.b.name}, {"first - second"}},
              .notes = c.notes};
  const auto interval = [](const stats::Interval& ci, const char* form) {
    return fmt::format(fmt::runtime(form), 100 * ci.low, 100 * ci.high);
  };
  const auto plain = [&](const ComparedSide& side) {
    return fmt::format("{} {}", percent_text(side.accuracy),
                       interval(side.ci95, "[{:.2f}, {:.2f}]"));
  };
  const auto row = [&table](const std::string& what, const std::string& a, const std::string& b,
                            const std::string& difference) {
    table.rows.push_back({what, a, b, difference});
  };
  row("seeds", seeds_text(c.a), seeds_text(c.b), "");
  row(fmt::format("test {} % [95 % interval]", c.metric.empty() ? "accuracy" : c.metric),
      plain(c.a), plain(c.b), fmt::format("{:+.2f}", 100 * c.difference));
  // Of tokens of the inputs nothing says what is learned.
  if (c.metric.empty() && (c.a.learned.of > 1 || c.b.learned.of > 1))
    row("learned by", c.a.learned.text(), c.b.learned.text(), "");
  if (c.a.sd || c.b.sd)
    row("sd over seeds", c.a.sd ? percent_text(*c.a.sd) : "–", c.b.sd ? percent_text(*c.b.sd) : "–",
        "");
  if (c.bootstrap)
    row(c.a.runs.size() + c.b.runs.size() > 2 ? "paired bootstrap of these runs, 95 % interval"
                                              : "paired bootstrap, 95 % interval",
        "", "", interval(*c.bootstrap, "[{:+.2f}, {:+.2f}]"));
  if (c.mcnemar) row("McNemar, exact", "", "", fmt::format("p = {:.4g}", *c.mcnemar));
  if (c.welch) {
    row("Welch over seeds and examples", "", "", fmt::format("p = {:.4g}", c.welch->p));
    row("Welch, 95 % interval", "", "", interval(c.welch->difference, "[{:+.2f}, {:+.2f}]"));
  }
  if (c.rank_sum) {
    row("rank sum over seeds, exact", "", "", fmt::format("p = {:.4g}", *c.rank_sum));
    row("a seed of the first is above one of the second", "", "",
        fmt::format("{:.0f} %", 100 * *c.above));
  }
  if (c.fisher)
    row("Fisher of the runs that learned it", "", "", fmt::format("p = {:.4g}", *c.fisher));
  const auto cost = [&](const char* what, std::optional<double> TrainingCost::*which,
                        const std::optional<double>& ratio, const char* times) {
    const auto of_a = c.a.median_cost(which), of_b = c.b.median_cost(which);
    if (of_a || of_b)
      row(what, of_a ? short_number(*of_a) : "–", of_b ? short_number(*of_b) : "–",
          ratio ? fmt::format("{} × the {}", short_number(*ratio), times) : "");
  };
  cost("training steps/s", &TrainingCost::steps_per_second, c.time_ratio, "time");
  cost("peak memory of training, MiB", &TrainingCost::peak_memory_mib, c.memory_ratio, "memory");
  std::vector<Table> tables{std::move(table)};
  if (c.counts) tables.push_back(counts_table(c));
  return tables;
}

}  // namespace lra
