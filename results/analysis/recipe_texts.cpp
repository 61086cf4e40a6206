// How recipes and the rows of their tables are called.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "attention_variants/base/text.h"
#include "results/analysis/identities.h"
#include "results/analysis/recipes.h"
#include "results/records/json_line.h"
#include "results/statistics/statistics.h"

namespace lra {
namespace {

// That of LRA's own table, and of records that name none.
const std::string& first_regime() {
  static const std::string first = Result{}.regime;
  return first;
}

// The first goes without saying, unless others stand beside it.
bool names_regime(const RecipeGroup& group) {
  return group.regime != first_regime() || group.beside_other_regimes;
}

std::string regime_text(const RecipeGroup& group) {
  return names_regime(group) ? fmt::format(" (regime {})", group.regime) : "";
}

// Why results of a regime stand apart from those of others.
std::string regime_note(const RecipeGroup& group) {
  std::string what;
  if (group.regime == first_regime())
    what = "shallow encoders in one recipe for all attentions";
  else if (group.regime == "later")
    what = "deeper models, with more steps and a recipe of each task's own";
  else if (group.regime == "recall")
    what = "tasks that are in no table of LRA's";
  else
    what = "other rules";
  return fmt::format("regime {}: {}; nothing here is ranked with results of {}", group.regime, what,
                     group.regime == first_regime() ? "other regimes" : "regime " + first_regime());
}

// "causal", or of tasks whose labels stand at positions "bidirectional".
std::string reading_of(const RecipeGroup& group) {
  const json::json_pointer causal("/model/causal");
  for (const Result* r : group.results) {
    if (r->config.contains(causal) && r->config.at(causal) == true) return "causal";
    if (r->test && r->test->samples) return "bidirectional";
  }
  return "";
}

// "objective masked", where labels are tokens; "pretrained (masked)", where it started from such.
std::string stage_of(const RecipeGroup& group) {
  const json::json_pointer objective("/training/objective");
  for (const Result* r : group.results) {
    if (!r->metric.empty() && r->config.contains(objective) && r->config.at(objective).is_string())
      return "objective " + r->config.at(objective).get<std::string>();
    if (r->pretrained) return fmt::format("pretrained ({})", r->pretrained->objective);
  }
  return "";
}

// What came before runs that started from the weights of others: medians over them.
std::string pretraining_note(const RecipeGroup& group) {
  std::set<std::string> objectives;
  std::vector<double> steps, samples, seconds;
  for (const Result* r : group.results) {
    if (!r->pretrained) continue;
    objectives.insert(r->pretrained->objective);
    steps.push_back(static_cast<double>(r->pretrained->steps));
    samples.push_back(static_cast<double>(r->pretrained->samples));
    seconds.push_back(r->pretrained->seconds);
  }
  if (objectives.empty()) return "";
  return fmt::format(
      "pretrained: the weights, but for the head, are those of runs with objective {} of {:.0f} "
      "steps, {:.0f} samples and {:.0f} s (medians), which come before what is shown here",
      fmt::join(objectives, ", "), stats::quantile(steps, 0.5), stats::quantile(samples, 0.5),
      stats::quantile(seconds, 0.5));
}

// What the protocol gives the attention by itself, where others of its label and task were given
// another: the protocol has changed since.
void add_own_settings(const Result* result, const std::vector<const Result*>& of_label,
                      const std::map<const Result*, DottedSettings>& settings,
                      std::vector<std::string>& extra) {
  for (const auto& [key, value] : settings.at(result)) {
    const auto other = [&, &key = key, &value = value](const Result* r) {
      const DottedSettings& theirs = settings.at(r);
      const auto it = theirs.find(key);
      return r->task == result->task && it != theirs.end() && it->second != value;
    };
    if (std::ranges::any_of(of_label, other)) extra.push_back(key + "=" + value);
  }
}

}  // namespace

std::string other_data_text(const RecipeGroup& group) {
  std::vector<std::string> kinds;
  if (!group.synthetic.empty()) {
    kinds.emplace_back("synthetic data");
    if (group.synthetic.size() < group.fingerprints.size())
      kinds.back() += fmt::format(" of {}", fmt::join(group.synthetic, " and "));
  }
  for (const auto& [task, variant] : group.variants)
    kinds.push_back(fmt::format("{} of {}", task, variant));
  return fmt::format("{}", fmt::join(kinds, ", "));
}

std::string other_data_text(const RecipeGroup& group, const std::vector<std::string>& tasks) {
  std::vector<std::string> kinds;
  const auto is_synthetic = [&group](const std::string& task) {
    return group.synthetic.contains(task);
  };
  if (std::ranges::all_of(tasks, is_synthetic)) kinds.emplace_back("synthetic data");
  for (const std::string& task : tasks) {
    if (group.variants.contains(task)) kinds.push_back(group.variants.at(task));
  }
  return fmt::format("{}", fmt::join(kinds, ", "));
}

std::string recipe_title(const RecipeGroup& group) {
  std::string text = group.number > 0 ? fmt::format("recipe {}: ", group.number) : "";
  text += "protocol " + group.protocol;
  text += regime_text(group);
  if (group.budget.known()) text += ", budget " + group.budget.name;
  const size_t changed = group.overridden.size() + group.settings.size();
  if (changed > 0)
    text += fmt::format(", {} {}", count_text(changed, "setting"),
                        group.overridden.empty() ? "of its own" : "overridden");
  if (const std::string stage = stage_of(group); !stage.empty()) text += ", " + stage;
  if (const std::string reading = reading_of(group); !reading.empty()) text += ", " + reading;
  if (!group.dtype.empty()) text += ", " + group.dtype;
  const std::string data = other_data_text(group);
  if (!data.empty()) text += ", " + data;
  return text;
}

std::string metric_note(const std::string& metric) {
  return "accuracies are " + metric + ": of tokens of the inputs, and not of the task";
}

std::vector<std::string> recipe_notes(const RecipeGroup& group,
                                      const std::vector<std::string>& tasks) {
  std::vector<std::string> notes;
  const auto add = [&notes](const std::string& what, const std::vector<std::string>& settings) {
    if (!settings.empty()) notes.push_back(fmt::format("{}: {}", what, fmt::join(settings, "; ")));
  };
  if (names_regime(group)) notes.push_back(regime_note(group));
  if (std::string note = pretraining_note(group); !note.empty()) notes.push_back(std::move(note));
  if (!group.results.empty() && !group.results.front()->metric.empty()) {
    notes.push_back(metric_note(group.results.front()->metric));
  }
  add(group.budget.known() ? "overridden, not the settings of budget " + group.budget.name
                           : "smoke or overridden run, not the recipe of " + group.protocol,
      group.overridden);
  add("with", group.settings);
  add(fmt::format("settings of budget {}, not the recipe of {}", group.budget.name, group.protocol),
      group.of_budget);
  add(fmt::format("values of {} for attentions, in place of the budget's", group.protocol),
      group.over_budget);
  std::vector<std::string> prints;
  for (const std::string& task : tasks) {
    const std::string& print = group.fingerprints.at(task);
    prints.push_back(fmt::format("{} {}{}", task, print.empty() ? "unknown" : print.substr(0, 8),
                                 group.synthetic.contains(task) ? " (synthetic stand-in)" : ""));
  }
  notes.push_back(fmt::format("data: {}", fmt::join(prints, ", ")));
  for (const std::string& task : tasks) {
    if (group.unlike.contains(task))
      notes.push_back(fmt::format("data of {} unlike the public: {}", task, group.unlike.at(task)));
  }
  return notes;
}

std::string recipe_text(const RecipeGroup& group, const std::vector<std::string>& tasks) {
  std::string text = "protocol " + group.protocol + regime_text(group);
  if (group.budget.known()) text += ", budget " + group.budget.name;
  if (!group.overridden.empty())
    text += fmt::format(" (overridden: {})", fmt::join(group.overridden, ", "));
  if (!group.settings.empty()) text += fmt::format(" (with {})", fmt::join(group.settings, ", "));
  if (const std::string stage = stage_of(group); !stage.empty()) text += ", " + stage;
  if (const std::string reading = reading_of(group); !reading.empty()) text += ", " + reading;
  if (!group.dtype.empty()) text += ", " + group.dtype;
  const std::string data = other_data_text(group, tasks);
  if (!data.empty()) text += ", " + data;
  std::vector<std::string> prints;
  for (const std::string& task : tasks) {
    const std::string& print = group.fingerprints.at(task);
    prints.push_back(task + " " + (print.empty() ? "unknown" : print.substr(0, 8)));
  }
  return text + fmt::format(", data {}", fmt::join(prints, ", "));
}

FileNames file_names(std::span<const Result* const> results) {
  std::vector<const AttentionRecord*> attentions;
  for (const Result* r : results) attentions.push_back(&r->attention);
  return shortest_names(attentions);
}

std::map<const Result*, std::string> row_names(const RecipeGroup& group) {
  return row_names(group, file_names(group.results));
}

std::map<const Result*, std::string> row_names(const RecipeGroup& group, const FileNames& files) {
  std::map<const Result*, AttentionRecord> attentions;
  std::map<const Result*, DottedSettings> own_settings;
  for (const Result* r : group.results) {
    attentions[r] = with_file_name(r->attention, files);
    own_settings[r] = variant_settings_of(*r, group.budget);
  }
  // By label and task.
  std::map<std::pair<std::string, std::string>, std::set<std::string>> options;
  std::map<std::string, std::set<std::string>> sources;  // by label: one file, whatever the task
  std::map<std::string, std::vector<const Result*>> by_label;
  for (const Result* r : group.results) {
    const AttentionRecord& attention = attentions.at(r);
    if (!attention.options.empty()) {
      options[{attention.label, r->task}].insert(json_line(attention.options));
      if (const std::string hashes = source_hashes(attention); !hashes.empty())
        sources[attention.label].insert(hashes);
    }
    by_label[attention.label].push_back(r);
  }
  std::map<const Result*, std::string> names;
  for (const auto& [label, members] : by_label) {
    const auto several = [&, &name = label](const Result* r) {
      return options[{name, r->task}].size() > 1;
    };
    const bool apart =
        sources[label].size() > 1 || std::any_of(members.begin(), members.end(), several);
    std::vector<const json*> all_options;
    for (const Result* r : members) all_options.push_back(&attentions.at(r).options);
    for (const Result* r : members) {
      std::vector<std::string> extra;
      if (apart) extra = differing_options(attentions.at(r).options, all_options);
      add_own_settings(r, members, own_settings, extra);
      names[r] = name_with(label, extra);
    }
  }
  return names;
}

}  // namespace lra
