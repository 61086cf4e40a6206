// A comparison for other programs.
#include "results/analysis/changed_settings.h"
#include "results/analysis/compare_runs.h"

namespace lra {
namespace {

json side_json(const ComparedSide& side) {
  json value = {{"attention", side.name}, {"accuracy", side.accuracy}};
  if (side.runs.front()->metric.empty()) value["learned"] = side.learned.learned;
  if (side.diverged() > 0) value["diverged"] = side.diverged();
  if (side.sd) value["sd"] = *side.sd;
  value["ci95"] = {side.ci95.low, side.ci95.high};
  value["runs"] = json::array();
  for (const Result* r : side.runs)
    value["runs"].push_back({{"path", r->path},
                             {"seed", r->seed},
                             {"correct", r->test->correct},
                             {"count", r->test->count}});
  return value;
}

}  // namespace

json comparison_json(const RunComparison& c) {
  const Result& any = *c.a.runs[0];
  json value = {{"schema", kCompareSchema},
                {"task", c.task},
                {"protocol", any.protocol},
                {"overridden", c.overridden},
                {"synthetic", any.data.synthetic},
                {"fingerprint", any.data.fingerprint},
                {"a", side_json(c.a)},
                {"b", side_json(c.b)},
                {"difference", c.difference}};
  if (const std::string variant = any.data.variant(); !variant.empty())
    value["data_variant"] = variant;
  if (!c.metric.empty()) value["metric"] = c.metric;
  const auto interval = [](const stats::Interval& ci) { return json::array({ci.low, ci.high}); };
  if (c.bootstrap) value["bootstrap_ci95"] = interval(*c.bootstrap);
  if (c.counts) {
    value["mcnemar"] = {{"both", c.counts->both},
                        {"only_a", c.counts->only_a},
                        {"only_b", c.counts->only_b},
                        {"neither", c.counts->neither},
                        {"p", *c.mcnemar}};
  }
  if (c.welch) value["welch"] = {{"p", c.welch->p}, {"ci95", interval(c.welch->difference)}};
  if (c.rank_sum) value["rank_sum"] = {{"p", *c.rank_sum}, {"above", *c.above}};
  if (c.fisher) value["fisher"] = {{"p", *c.fisher}};
  if (c.time_ratio) value["time_ratio"] = *c.time_ratio;
  if (c.memory_ratio) value["memory_ratio"] = *c.memory_ratio;
  value["notes"] = c.notes;
  return value;
}

}  // namespace lra
