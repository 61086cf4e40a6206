// In what a run's settings differ from its protocol's and its budget's.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "results/records/result.h"

namespace lra {

/// Whether a setting changes no number of a run but by rounding.
bool rounds_only(std::string_view key);

/// "key=value" as key and value; "" where it holds none.
std::pair<std::string, std::string> split_override(const std::string& text);

/// The overridden settings with their values, "key=value", sorted; without those that change no
/// number of a run but by rounding.
std::vector<std::string> overridden_settings(const Result& result);

struct ChangedSetting {
  std::string key, value;
  bool of_budget = false;  // the budget sets this very value for the run's task
};

/// overridden_settings(), and beside a budget those that it sets for the task and that have the
/// protocol's own value in the run, which is not one for the run's attention.
std::vector<ChangedSetting> changed_settings(const Result& result, const RunBudget& budget);

/// Of the settings that a budget sets for the task, those whose value of the protocol for the run's
/// attention stands, with that.
std::map<std::string, std::string> values_over_budget(const Result& result,
                                                      const RunBudget& budget);

/// Makes a cell of a suite with this budget, or a run like one, a run by hand. What the budget set
/// where the protocol has a value for one attention belongs to the attention then, as that value
/// does: it is overridden no longer.
void forget_budget(Result& result, const RunBudget& budget);

/// Whether a budget sets this key for any task, be it in the run before (`pretraining`).
bool sets_key(const RunBudget& budget, const std::string& key);

}  // namespace lra
