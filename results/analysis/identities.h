// What the runs of a task have in common that may stand in one table: their data and settings.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "results/records/result.h"

namespace lra {

using DottedSettings = std::map<std::string, std::string>;  // dotted key -> value

/// What a run was trained with, but for what makes it itself, as its attention and seed, and for
/// what the protocol gives every variant its own value of. `budget`: that of the suite whose cell
/// it is, or is like.
DottedSettings settings_of(const Result& result, const RunBudget& budget);

/// Those that belong to the variant: the protocol gives attentions their own values of them, and
/// nothing but the budget set them over it.
DottedSettings variant_settings_of(const Result& result, const RunBudget& budget);

/// Whether two runs of a task are of one attention, with equal options and settings of its own.
bool of_one_variant(const Result& a, const Result& b);

using Identity = std::pair<std::string, DottedSettings>;       // data fingerprint, settings
using Identities = std::map<std::string, std::set<Identity>>;  // by task
using OwnIdentity = std::map<const Result*, Identity>;

/// That of each run under one budget, and all of them by task. A run that ended before it read its
/// data has that of others of its task.
OwnIdentity own_identities(const std::vector<const Result*>& members, const RunBudget& budget,
                           Identities& identities);

using IdentityLabels = std::map<std::pair<std::string, Identity>, std::string>;  // (task, it)

/// The group of each identity, by name: where no task has two, all are of one. Else those go
/// together that were set over the protocol alike, or that lie in one suite's folder; where neither
/// tells, each is its own, as an average over tasks would be of experiments that have nothing to do
/// with each other.
IdentityLabels identity_labels(const Identities& identities, const OwnIdentity& own);

}  // namespace lra
