#include "lra/config/preset.h"

#include <fmt/format.h>

#include <algorithm>

#include "attention_variants/base/fields.h"
#include "embedded_presets.h"
#include "lra/config/embedded.h"
#include "lra/config/once.h"
#include "lra/config/protocol.h"
#include "lra/data/task.h"

namespace lra {
namespace {

constexpr const char* kAll = "*";

}  // namespace

std::vector<std::string> preset_names() { return embedded_names(embedded_presets); }

Preset load_preset(const std::string& name_or_path) {
  Preset preset;
  const LoadedJson file = load_named_json("preset", name_or_path, embedded_presets, preset);
  if (preset.scope == ProfileScope::model) {
    if (!file.value.contains("heads")) preset.heads = 0;
    if (!file.value.contains("head_dim")) preset.head_dim = 0;
  }
  if (preset.lengths.empty())
    bad_value(file.where, "lengths", integers(between(1, kLongestLength)).expected, json::array());
  check_once(file.where + ": lengths", preset.lengths);
  if (!preset.task.empty()) lra::task(preset.task);
  load_protocol(preset.protocol);
  read_at(file.where + ": attentions", [&] { attentions_of(preset.attentions); });
  check_once(file.where + ": attentions", parse_attentions(preset.attentions));
  return preset;
}

std::vector<std::string> Preset::set_words() const {
  std::vector<std::string> words;
  for (const auto& [key, value] : set.items())
    words.push_back(fmt::format("{}={}", key, text_from_value(value)));
  return words;
}

std::vector<AttentionSpec> attentions_of(const std::string& list) {
  const std::vector<AttentionSpec> given = parse_attentions(list);
  const auto key = [](const AttentionSpec& spec) {
    return attention_key(spec.name, attention_entry(spec.name).effective_options(spec.options));
  };
  std::vector<std::string> named;
  for (const AttentionSpec& spec : given) {
    if (spec.name != kAll) named.push_back(key(spec));
  }
  std::vector<AttentionSpec> specs;
  for (const AttentionSpec& spec : given) {
    if (spec.name != kAll) {
      specs.push_back(spec);
      continue;
    }
    for (const AttentionEntry* entry : attention_entries()) {
      AttentionSpec other{.name = entry->info.name};
      if (std::ranges::find(named, key(other)) == named.end()) specs.push_back(std::move(other));
    }
  }
  return specs;
}

}  // namespace lra
