#include "lra/config/protocol.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "attention_variants/base/json_text.h"
#include "attention_variants/base/text.h"
#include "embedded_protocols.h"
#include "lra/config/embedded.h"
#include "lra/config/protocol_parts.h"
#include "lra/data/task.h"

namespace lra {
namespace {

constexpr const char* kSchema = "lra.protocol/1";

struct ProtocolFile {
  std::string schema, name, title, description, source, regime, extends;
  std::vector<std::string> follows, choices;
  bool inherit_choices = true;
  json settings = json::object(), tasks = json::object(), attentions = json::object(),
       attention_settings = json::object(), variants = json::object();

  template <class Fields>
  void fields(Fields& f) {
    f("schema", schema, one_of({kSchema}));
    f("name", name);
    f("title", title);
    f("description", description);
    f("source", source);
    f("regime", regime, one_of({kFirstRegime, kLaterRegime, kRecallRegime}));
    f("extends", extends);
    f("follows", follows, strings());
    f("choices", choices, strings());
    f("inherit_choices", inherit_choices);
    f("settings", settings, json_object());
    f("tasks", tasks, json_object());
    f("attentions", attentions, json_object());
    f("attention_settings", attention_settings, json_object());
    f("variants", variants, json_object());
  }
};

// Reads settings, and those of a run before.
void check_settings_of(const json& value, const std::string& where) {
  Settings settings, before;
  read_fields(value, settings, where);
  read_fields(settings.pretraining, before, where + ".pretraining");
}

// Of an attention made from a file, which is not looked for until it is used.
void check_file_entry(const std::string& name, const AttentionPart& part,
                      const std::string& place) {
  const AttentionSpec attention = read_at(place, [&] { return parse_attention(name); });
  read_at(place, [&] { attention_entry(attention.name); });
  if (runs_by_name(attention.name)) {
    throw UsageError(fmt::format("{}: {} is not made from a file; name it by that alone", place,
                                 attention.name));
  }
  if (const std::string own = entry_name(attention); own != name) {
    throw UsageError(fmt::format(
        "{}: an entry is of an attention with whatever options; name it {}", place, own));
  }
  if (!part.options.empty() || !part.variant.empty()) {
    throw UsageError(fmt::format(
        "{}: an attention made from a file has its options in brackets where it is named; its "
        "entry holds settings alone",
        place));
  }
  check_settings_of(part.settings, place + ".settings");
}

// Reads everything that a task's entry holds.
void check_task(const Protocol& protocol, const std::string& task_name, const std::string& where) {
  read_at(where, [&] { task(task_name); });
  json own = protocol.tasks[task_name];
  if (own.is_object()) own.erase(kAttentions);
  check_settings_of(own, where);
  const json parts = attention_settings(protocol, task_name);
  if (!parts.is_object())
    throw UsageError(where + "." + kAttentions + " should be a JSON object, not " +
                     printable_json(parts));
  for (const auto& [variant, value] : parts.items()) {
    const std::string place = where + "." + kAttentions + "." + variant;
    AttentionPart part;
    read_fields(value, part, place);
    if (names_file(variant)) {
      check_file_entry(variant, part, place);
      continue;
    }
    check_plain_name(variant, place);
    const AttentionEntry& entry = *read_at(place, [&, &name = variant] {
      return &attention_entry(meant_attention(protocol, task_name, {.name = name}).name);
    });
    check_settings_of(part.settings, place + ".settings");
    json options = protocol.attentions.value(entry.info.name, json::object());
    check_keys(part.options, entry.option_names, place + ".options");
    merge(options, part.options);
    read_at(place + ".options", [&] { entry.effective_options(options); });
  }
}

// What decides a run, of the tasks of `protocol` alone where `tasks` are given.
json decisive(const Protocol& protocol, const json& tasks) {
  json value = {{"regime", protocol.regime},
                {"attentions", protocol.attentions},
                {"attention_settings", protocol.attention_settings},
                {"variants", protocol.variants},
                {"tasks", json::object()}};
  for (const auto& [name, entry] : tasks.items()) {
    if (!protocol.tasks.contains(name)) return {};
    value["tasks"][name] = write_fields(task_settings(protocol, name));
    value["tasks"][name][kAttentions] = attention_settings(protocol, name);
  }
  return value;
}

// A file may bear the name of a built-in protocol only where it says the same.
void check_name(const Protocol& protocol, const std::string& where) {
  if (!is_built_in(protocol.name)) return;
  if (differences(decisive(protocol, protocol.tasks),
                  decisive(load_protocol(protocol.name), protocol.tasks))
          .empty())
    return;
  throw UsageError(where + ": the name " + protocol.name +
                   " is a built-in protocol's; choose another, so that records tell them apart");
}

// Reads every name and value that a protocol holds.
void check_protocol(const Protocol& protocol, const std::string& where) {
  check_settings_of(protocol.settings, where + ": settings");
  for (const auto& [variant, own] : protocol.attention_settings.items()) {
    check_plain_name(variant, where + ": attention_settings");
    check_settings_of(own, where + ": attention_settings." + variant);
  }
  for (const auto& [variant, meant] : protocol.variants.items()) {
    if (!meant.is_string()) bad_value(where, "variants." + variant, "the name of a variant", meant);
    read_at(where + ": variants", [&name = variant, &of = meant] {
      attention_entry(name);
      attention_entry(of);
    });
  }
  for (const auto& [task_name, entry] : protocol.tasks.items())
    check_task(protocol, task_name, where + ": tasks." + task_name);
  for (const auto& [variant, options] : protocol.attentions.items()) {
    read_at(where + ": attentions", [&name = variant, &given = options] {
      attention_entry(name).effective_options(given);
    });
  }
}

// A group that an empty one switches off, where of others an empty one gives no value.
bool is_none(const std::string& key, const json& value) {
  return key == "pretraining" && value.is_object() && value.empty();
}

// Takes the values that `of` has, whatever they are, out of `from`.
void erase_leaves(json& from, const json& of) {
  for (const auto& [key, value] : of.items()) {
    const auto it = from.find(key);
    if (it == from.end()) continue;
    if (value.is_object() && it->is_object() && !is_none(key, value)) {
      erase_leaves(*it, value);
      if (!it->empty()) continue;
    }
    from.erase(key);
  }
}

// What a protocol extends, by its name or, from the folder of the file that says so, by its path.
std::string parent_of(const std::string& name, const std::string& extends) {
  if (!is_path(extends) || !is_path(name)) return extends;
  return (std::filesystem::path(name).parent_path() / extends).lexically_normal().string();
}

// The file alone.
Protocol of_file(const ProtocolFile& file, const std::string& where) {
  return {.where = where,
          .name = file.name,
          .title = file.title,
          .description = file.description,
          .source = file.source,
          .regime = file.regime.empty() ? kFirstRegime : file.regime,
          .follows = file.follows,
          .choices = file.choices,
          .settings = file.settings,
          .tasks = file.tasks,
          .attentions = file.attentions,
          .attention_settings = file.attention_settings,
          .variants = file.variants};
}

// Options of a name that stands for another.
void check_meant(const Protocol& protocol, const Protocol& own) {
  for (const auto& [attention, options] : own.attentions.items()) {
    const std::string meant = protocol.variants.value(attention, attention);
    if (meant == attention) continue;
    throw UsageError(fmt::format(
        "{}: attentions.{} is read by nothing, as the protocol means {} by that name; give {} the "
        "options",
        own.where, attention, meant, meant));
  }
}

Protocol load(const std::string& name, std::vector<std::string>& seen) {
  if (std::ranges::find(seen, name) != seen.end()) {
    throw UsageError("protocol " + name + " extends itself through " + seen.back());
  }
  seen.push_back(name);
  ProtocolFile file;
  const std::string where = load_named_json("protocol", name, embedded_protocols, file).where;
  const Protocol own = of_file(file, where);
  Protocol parent, protocol = own;
  if (!file.extends.empty())
    parent =
        read_at(where + ": extends", [&] { return load(parent_of(name, file.extends), seen); });
  if (file.regime.empty()) protocol.regime = parent.regime;
  if (file.inherit_choices) {
    for (auto lines : {&Protocol::follows, &Protocol::choices}) {
      const std::vector<std::string>& first = parent.*lines;
      (protocol.*lines).insert((protocol.*lines).begin(), first.begin(), first.end());
    }
  }
  protocol.tasks = parent.tasks;
  // Own settings go over what an extended protocol sets by task, too.
  for (auto& [task_name, entry] : protocol.tasks.items()) erase_leaves(entry, own.settings);
  merge(protocol.tasks, own.tasks);
  for (auto part : {&Protocol::settings, &Protocol::attentions, &Protocol::attention_settings,
                    &Protocol::variants}) {
    protocol.*part = parent.*part;
    merge(protocol.*part, own.*part);
  }
  check_meant(protocol, own);
  check_protocol(protocol, where);
  if (where.starts_with("protocol file")) {
    check_name(protocol, where);
    protocol.left = left_values(own, parent, protocol);
  }
  return protocol;
}

}  // namespace

void merge(json& below, const json& above) {
  for (const auto& [key, value] : above.items()) {
    if (value.is_object() && !is_none(key, value) && below.contains(key) &&
        below[key].is_object()) {
      merge(below[key], value);
    } else {
      below[key] = value;
    }
  }
}

void check_task_known(const Protocol& protocol, const std::string& task_name) {
  if (protocol.tasks.contains(task_name)) return;
  std::vector<std::string> names;
  for (const auto& [name, value] : protocol.tasks.items()) names.push_back(name);
  std::vector<std::string> others = protocol_names();
  std::erase_if(others, [&](const std::string& other) {
    return !load_protocol(other).tasks.contains(task_name);
  });
  const UsageError error = unknown_name("task", task_name, names, "protocol " + protocol.name);
  if (others.empty()) throw error;
  const bool one = others.size() == 1;
  throw UsageError(fmt::format("{}; {} {} {} it: --protocol {}", error.what(),
                               plural("protocol", others.size()), fmt::join(others, ", "),
                               one ? "has" : "have", one ? others.front() : "NAME"));
}

std::vector<std::string> protocol_names() { return embedded_names(embedded_protocols); }

bool is_built_in(const std::string& name) { return std::ranges::count(protocol_names(), name) > 0; }

Protocol load_protocol(const std::string& name_or_path) {
  std::vector<std::string> seen;
  return load(name_or_path, seen);
}

json protocol_json(const Protocol& protocol, const std::string& task) {
  json all = {{"schema", kSchema},
              {"name", protocol.name},
              {"title", protocol.title},
              {"description", protocol.description},
              {"source", protocol.source},
              {"regime", protocol.regime},
              {"follows", protocol.follows},
              {"choices", protocol.choices},
              {"tasks", json::object()},
              {"attentions", protocol.attentions},
              {"attention_settings", protocol.attention_settings},
              {"variants", protocol.variants}};
  const auto add = [&](const std::string& name) {
    all["tasks"][name] = write_fields(task_settings(protocol, name));
    const json parts = attention_settings(protocol, name);
    if (!parts.empty()) all["tasks"][name][kAttentions] = parts;
  };
  if (!task.empty()) {
    add(task);
  } else {
    for (const auto& [key, value] : protocol.tasks.items()) add(key);
  }
  return all;
}

json attention_settings(const Protocol& protocol, const std::string& task_name) {
  check_task_known(protocol, task_name);
  return protocol.tasks[task_name].value(kAttentions, json::object());
}

}  // namespace lra
