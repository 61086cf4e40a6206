// What a user's protocol sets and an entry of the one that it extends goes over.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "lra/config/protocol.h"
#include "lra/config/protocol_parts.h"

namespace lra {
namespace {

bool holds(const json& values, const std::string& key) {
  return values.contains(dotted_pointer(key));
}

// What a protocol gives one attention itself: on all tasks, and on one.
struct Entry {
  json settings = json::object();
  AttentionPart part;
};

Entry entry_of(const Protocol& protocol, const std::string& task_name, const std::string& name) {
  Entry entry{.settings = protocol.attention_settings.value(name, json::object()), .part = {}};
  const json of_task = protocol.tasks.value(task_name, json::object());
  const json parts = of_task.value(kAttentions, json::object());
  if (parts.contains(name)) read_fields(parts[name], entry.part, protocol.where);
  return entry;
}

// Whether an entry gives what was left before, over the entry of the protocol that it extends.
bool gives(const Entry& own, const Entry& parent, const std::string& key) {
  if (key.starts_with("variants.")) return !own.part.variant.empty();
  if (key.starts_with(std::string(kAttentions) + "."))
    return own.part.options.contains(key.substr(key.rfind('.') + 1));
  return holds(own.part.settings, key) ||
         (holds(own.settings, key) && !holds(parent.part.settings, key));
}

std::set<std::string> entry_names(const Protocol& protocol, const std::string& task_name) {
  std::set<std::string> names;
  for (const auto& [name, own] : protocol.attention_settings.items()) names.insert(name);
  const json of_task = protocol.tasks.value(task_name, json::object());
  const json parts = of_task.value(kAttentions, json::object());
  for (const auto& [name, part] : parts.items()) names.insert(name);
  return names;
}

// The keys of `below` that `above` has otherwise, and no entry of `own` gives.
std::vector<std::string> gone_over(const json& below, const json& above,
                                   const std::vector<const json*>& own) {
  std::set<std::string> keys;
  collect_keys(below, "", keys);
  std::vector<std::string> left;
  for (const std::string& key : keys) {
    if (!holds(below, key) || !holds(above, key)) continue;
    if (above.at(dotted_pointer(key)) == below.at(dotted_pointer(key))) continue;
    if (std::ranges::any_of(own, [&](const json* given) { return holds(*given, key); })) continue;
    left.push_back(key);
  }
  return left;
}

// Of one attention on one task.
std::vector<std::string> left_keys(const Protocol& own, const Protocol& parent,
                                   const Protocol& merged, const std::string& task_name,
                                   const std::string& name) {
  const Entry mine = entry_of(own, task_name, name), theirs = entry_of(parent, task_name, name);
  json below = own.settings, of_task = own.tasks.value(task_name, json::object());
  of_task.erase(kAttentions);
  merge(below, of_task);
  json above = theirs.settings;
  merge(above, theirs.part.settings);
  std::vector<std::string> left = gone_over(below, above, {&mine.settings, &mine.part.settings});
  const auto add = [&](const std::vector<std::string>& keys, const std::string& before) {
    for (const std::string& key : keys) left.push_back(before + key);
  };
  add(gone_over(mine.settings, theirs.part.settings, {&mine.part.settings}), "");
  if (!names_file(name)) {
    const std::string meant = meant_attention(merged, task_name, {.name = name}).name;
    const std::string of_options = std::string(kAttentions) + "." + meant + ".";
    add(gone_over(own.attentions.value(meant, json::object()), theirs.part.options,
                  {&mine.part.options}),
        of_options);
    const std::string variant = own.variants.value(name, theirs.part.variant);
    if (mine.part.variant.empty() && !theirs.part.variant.empty() && variant != theirs.part.variant)
      left.push_back("variants." + name);
  }
  return left;
}

}  // namespace

std::string LeftValue::text(const std::string& attentions) const {
  return fmt::format("{}: {} as {} has it for {}", task, key, by, attentions);
}

std::string LeftValue::remedy() const {
  const std::string entry = fmt::format("an entry for {} in tasks.{}.attentions", attention, task);
  if (key.starts_with("variants.")) return entry + " gives its variant";
  if (key.starts_with(std::string(kAttentions) + ".")) return entry + " gives it, or brackets";
  return entry + " gives it, or --set";
}

std::vector<LeftValue> left_values(const Protocol& own, const Protocol& parent,
                                   const Protocol& merged) {
  std::vector<LeftValue> all;
  for (const LeftValue& known : parent.left) {
    if (!gives(entry_of(own, known.task, known.attention),
               entry_of(parent, known.task, known.attention), known.key))
      all.push_back(known);
  }
  for (const auto& [task_name, value] : merged.tasks.items()) {
    for (const std::string& name : entry_names(parent, task_name)) {
      for (const std::string& key : left_keys(own, parent, merged, task_name, name)) {
        const bool known = std::ranges::any_of(all, [&, &of = name](const LeftValue& one) {
          return one.task == task_name && one.attention == of && one.key == key;
        });
        if (!known)
          all.push_back({.task = task_name, .attention = name, .key = key, .by = parent.name});
      }
    }
  }
  return all;
}

}  // namespace lra
