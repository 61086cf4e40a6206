// Groups of parameters that the optimizer treats on their own: `optimizer.groups`, a list of
//   {"match": ["*.log_dt", "slow"], "lr": 0.001, "weight_decay": 0}
// or "lr_factor": 0.1 for a rate of that times optimizer.lr.
// A pattern is a parameter's name as checkpoints have it, in which * stands for any letters and ?
// for one, or "slow": those that the attention's recipe trains slowly
// (Attention::slow_parameters()), which may be none. The first group that matches a parameter has
// it; others keep optimizer.lr and optimizer.weight_decay, as does what a group does not say.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "attention_variants/base/fields.h"

namespace lra {

inline constexpr const char* kSlowParameters = "slow";

struct ParameterGroup {
  std::vector<std::string> match;
  std::optional<double> lr, weight_decay;
};

/// That a value is a list of JSON objects.
Check list_of_objects();

/// Reads `optimizer.groups`; throws UsageError that names the entry and what is wrong.
std::vector<ParameterGroup> parameter_groups(const json& list);

/// The same list with "lr" for each "lr_factor", of optimizer.lr `lr`, as a run's settings have it.
/// Throws likewise.
json with_rates(const json& list, double lr);

/// Whether a pattern other than "slow" is of a name.
bool matches(const std::string& pattern, const std::string& name);

}  // namespace lra
