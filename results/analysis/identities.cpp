#include "results/analysis/identities.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <string_view>

#include "embedded_earlier.h"
#include "results/analysis/changed_settings.h"
#include "results/records/json_line.h"

namespace lra {
namespace {

// What makes a run itself and not its recipe.
constexpr std::string_view kNotSettings[] = {"task", "attention", "protocol",   "regime",
                                             "seed", "dtype",     "overridden", "by_attention"};

void flatten(const json& value, const std::string& path, DottedSettings& settings) {
  if (!value.is_object()) {
    if (!rounds_only(path)) settings[path] = json_line(value);
    return;
  }
  for (const auto& [key, inner] : value.items()) {
    if (path.empty() && std::ranges::count(kNotSettings, key) > 0) continue;
    flatten(inner, path.empty() ? key : path + "." + key, settings);
  }
}

// Settings that came after the first records, and what runs did before.
const DottedSettings& settings_since() {
  static const DottedSettings since = [] {
    DottedSettings values;
    for (const auto& [stem, text] : embedded_earlier) {
      if (stem == "settings") flatten(json::parse(text), "", values);
    }
    return values;
  }();
  return since;
}

using LabelOf = std::function<std::string(const Result&)>;

// The values that were set over the protocol's.
std::string label_by_values(const Result& r) {
  return fmt::format("{}", fmt::join(overridden_settings(r), "; "));
}

// The folder that has runs/TASK/ATTENTION in it, as a suite's.
std::string label_by_folder(const Result& r) {
  const size_t at = r.path.rfind("/" + r.task + "/");
  return at == std::string::npos ? "" : r.path.substr(0, at);
}

// The label of every identity; nothing where one has two, or a label two identities of a task.
IdentityLabels labels_by(const OwnIdentity& own, const LabelOf& label) {
  IdentityLabels labels;
  std::map<std::pair<std::string, std::string>, const Identity*> taken;  // by (task, label)
  for (const auto& [r, identity] : own) {
    const std::string text = label(*r);
    const bool same = labels.try_emplace({r->task, identity}, text).first->second == text;
    const Identity* of_label = taken.try_emplace({r->task, text}, &identity).first->second;
    if (!same || *of_label != identity) return {};
  }
  return labels;
}

}  // namespace

DottedSettings settings_of(const Result& r, const RunBudget& budget) {
  DottedSettings settings;
  flatten(r.config, "", settings);
  if (settings.empty()) return settings;
  settings.insert(settings_since().begin(), settings_since().end());
  // What it started from, but for the one run that was; of two runs in one the settings say it.
  if (r.pretrained && !r.has_pretraining()) {
    settings["pretrained.objective"] = r.pretrained->objective;
    settings["pretrained.steps"] = json_line(r.pretrained->steps);
    settings["pretrained.samples"] = json_line(r.pretrained->samples);
  }
  for (const auto& [key, value] : variant_settings_of(r, budget)) settings.erase(key);
  return settings;
}

DottedSettings variant_settings_of(const Result& r, const RunBudget& budget) {
  DottedSettings settings;
  const auto keys = r.config.find("by_attention");
  if (keys == r.config.end() || !keys->is_array()) return settings;
  for (const json& key : *keys) {
    const json* value = key.is_string() ? r.setting(key) : nullptr;
    if (value != nullptr && !value->is_object() && !rounds_only(key.get<std::string>()))
      settings[key] = json_line(*value);
  }
  for (const ChangedSetting& changed : changed_settings(r, budget)) {
    if (!changed.of_budget) settings.erase(changed.key);
  }
  return settings;
}

bool of_one_variant(const Result& a, const Result& b) {
  return a.attention.label == b.attention.label && a.attention.options == b.attention.options &&
         variant_settings_of(a, a.budget) == variant_settings_of(b, b.budget);
}

OwnIdentity own_identities(const std::vector<const Result*>& members, const RunBudget& budget,
                           Identities& identities) {
  for (const Result* r : members) {
    auto& of_task = identities[r->task];
    if (!r->data.fingerprint.empty()) of_task.emplace(r->data.fingerprint, settings_of(*r, budget));
  }
  OwnIdentity own;
  for (const Result* r : members) {
    Identity identity{r->data.fingerprint, settings_of(*r, budget)};
    auto& of_task = identities[r->task];
    if (identity.first.empty()) {
      const auto place = std::find_if(of_task.begin(), of_task.end(), [&](const Identity& known) {
        return identity.second.empty() || known.second == identity.second;
      });
      if (place == of_task.end()) {
        of_task.insert(identity);
      } else {
        identity = *place;
      }
    }
    own[r] = identity;
  }
  return own;
}

IdentityLabels identity_labels(const Identities& identities, const OwnIdentity& own) {
  const bool single = std::ranges::all_of(
      identities, [](const auto& of_task) { return of_task.second.size() <= 1; });
  if (single) return labels_by(own, [](const Result&) { return ""; });
  for (const LabelOf& label : {LabelOf(label_by_values), LabelOf(label_by_folder)}) {
    IdentityLabels labels = labels_by(own, label);
    if (!labels.empty()) return labels;
  }
  IdentityLabels apart;
  for (const auto& [task, of_task] : identities) {
    for (const Identity& identity : of_task)
      apart[{task, identity}] = fmt::format("{} {}", task, apart.size());
  }
  return apart;
}

}  // namespace lra
