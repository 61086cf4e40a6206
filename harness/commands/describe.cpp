#include "harness/commands/describe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "attention_variants/base/fields.h"
#include "attention_variants/python_host.h"
#include "attention_variants/registry.h"
#include "embedded_meanings.h"
#include "harness/commands/commands.h"
#include "harness/host/terminal.h"
#include "lra/config/protocol.h"
#include "lra/data/task.h"
#include "results/print/terminal.h"
#include "results/records/json_line.h"

namespace lra {
namespace {

const json& meanings(const std::string& stem) {
  static const std::map<std::string, json> all = [] {
    std::map<std::string, json> parsed;
    for (const auto& [name, text] : embedded_meanings)
      parsed[std::string(name)] = json::parse(text);
    return parsed;
  }();
  return all.at(stem);
}

// What the strict reader says that it takes in a place, by giving it what an option does not take.
template <class Read>
std::string accepted(Read read) {
  constexpr std::string_view kBefore = " should be ", kBehind = ", not ";
  for (const json& wrong : {json(json::array()), json(nullptr)}) {
    try {
      read(wrong);
    } catch (const UsageError& error) {
      const std::string text = error.what();
      const size_t begin = text.find(kBefore), end = text.rfind(kBehind);
      if (begin != text.npos && end != text.npos && end > begin + kBefore.size())
        return text.substr(begin + kBefore.size(), end - begin - kBefore.size());
    }
  }
  return "";
}

// The attention's name with an option in brackets that is not as by default, where an easy one is.
std::string example_of(const AttentionEntry& entry) {
  const AttentionInfo& info = entry.info;
  const std::string key = !info.budget.empty() ? info.budget : entry.option_names.front();
  const json& now = entry.default_options.at(key);
  const json other = now.is_number_integer() && now > 1 ? json(now.get<int64_t>() / 2) : now;
  return fmt::format("{}[{}={}]", info.name, key, text_from_value(other));
}

// "training.steps" -> {"training": {"steps": value}}
json nested(const std::string& key, const json& value) {
  const size_t dot = key.find('.');
  if (dot == key.npos) return {{key, value}};
  return {{key.substr(0, dot), {{key.substr(dot + 1), value}}}};
}

// What is made from a file has options of the program's own alone.
void print_own(const std::string& name) {
  if (name == kPythonAttention) {
    fmt::print("python: a class of one's own, named python:FILE.py:Class; see docs/python.md\n");
  } else {
    fmt::print(
        "torchscript: a TorchScript module of one's own, named torchscript:FILE.pt; see "
        "docs/attentions.md\n");
  }
}

std::string accepted_setting(const std::string& key) {
  return accepted([&](const json& wrong) {
    Settings settings;
    read_fields(nested(key, wrong), settings, "");
  });
}

// "group.key" of all settings, or of one group, or the one key itself.
std::vector<std::string> setting_keys(const std::string& wanted) {
  std::vector<std::string> all, chosen;
  const json settings = write_fields(Settings{});
  for (const auto& [group, fields] : settings.items()) {
    if (!fields.is_object() || fields.empty()) {
      all.push_back(group);
      continue;
    }
    for (const auto& [key, value] : fields.items()) all.push_back(group + "." + key);
  }
  for (const std::string& key : all) {
    if (wanted.empty() || key == wanted || key.starts_with(wanted + ".")) chosen.push_back(key);
  }
  if (chosen.empty()) throw unknown_name("setting", wanted, all, "the protocols");
  return chosen;
}

std::string value_of(const json& settings, const std::string& key) {
  const size_t dot = key.find('.');
  return text_from_value(dot == key.npos ? settings.at(key)
                                         : settings.at(key.substr(0, dot)).at(key.substr(dot + 1)));
}

// Of the example of a few steps, which end after the warm-up.
std::string example_sets(const Settings& settings) {
  constexpr int64_t kSteps = 100;
  std::string sets = fmt::format(" --set training.steps={}", kSteps);
  if (settings.schedule.warmup >= kSteps)
    sets += fmt::format(" --set schedule.warmup={}", kSteps / 5);
  return sets;
}

// The default one, or the first that knows the task.
Protocol protocol_of(const std::string& task_name) {
  Protocol protocol = load_protocol(kDefaultProtocol);
  for (const std::string& other : protocol_names()) {
    if (protocol.tasks.contains(task_name)) break;
    protocol = load_protocol(other);
  }
  return protocol;
}

}  // namespace

void print_table(const Table& table) {
  fmt::print("{}", to_terminal(table, host::table_columns()));
}

void print_json(const json& value) { fmt::print("{}\n", json_text(value)); }

std::string option_meaning(const std::string& attention, const std::string& option) {
  const json all = meanings("attentions");
  return all.contains(attention) ? all[attention].value(option, "") : "";
}

std::string setting_meaning(const std::string& key) { return meanings("settings").value(key, ""); }

std::vector<std::string> settings_meant(const std::string& option, const std::string& value) {
  std::string key = option.substr(std::min<size_t>(2, option.size()));
  std::ranges::replace(key, '-', '_');
  if (key == "learning_rate") key = "lr";
  if (key == "batch_size") key = "batch";
  std::vector<std::string> meant;
  for (const std::string& setting : setting_keys("")) {
    if (setting.ends_with("." + key) || setting == key)
      meant.push_back(fmt::format("{}={}", setting, value));
  }
  return meant;
}

void print_attention(const std::string& name) {
  const AttentionEntry& entry = attention_entry(name);
  const AttentionInfo& info = entry.info;
  if (!runs_by_name(name)) return print_own(name);
  fmt::print("{}: {}, {}\n{}\n\n", info.name, info.title, info.paper, info.complexity);
  if (entry.option_names.empty()) {
    fmt::print("It has no options.\n");
    return;
  }
  Table table{.columns = {{"option", Align::kLeft},
                          {"meaning", Align::kLeft},
                          {"takes", Align::kLeft},
                          {"default", Align::kLeft}}};
  for (const std::string& option : entry.option_names) {
    table.rows.push_back({option, option_meaning(name, option), accepted([&](const json& wrong) {
                            entry.effective_options({{option, wrong}});
                          }),
                          text_from_value(entry.default_options.at(option))});
  }
  print_table(table);
  fmt::print("\nExample: {}\n", example_of(entry));
}

void print_task(const std::string& name) {
  const Task& known = task(name);
  fmt::print("{}: {}\n", known.name, known.title);
  for (const std::string& line : wrapped(known.description, host::table_columns()))
    fmt::print("{}\n", line);
  fmt::print("{} classes, {} ids, {} input(s), {} tokens\n\n", known.classes, known.vocabulary,
             known.inputs, known.length);
  const Protocol protocol = protocol_of(name);
  const Settings of_task = task_settings(protocol, name);
  const json settings = write_fields(of_task);
  Table table{.title = "Settings under " + protocol.name,
              .columns = {{"setting", Align::kLeft},
                          {"meaning", Align::kLeft},
                          {"takes", Align::kLeft},
                          {"default", Align::kLeft}}};
  for (const std::string& key : setting_keys(""))
    table.rows.push_back(
        {key, setting_meaning(key), accepted_setting(key), value_of(settings, key)});
  print_table(table);
  fmt::print(
      "\nExample: lra data prepare {0}{1} --out data\n"
      "         lra train --task {0}{2} --attention standard --data data --run run{3}\n",
      name, known.source.empty() ? "" : " --source SOURCE",
      protocol.name == kDefaultProtocol ? "" : " --protocol " + protocol.name,
      example_sets(of_task));
  if (!known.source.empty()) fmt::print("SOURCE: {}\n", known.source);
}

// Notes of what the protocol sets otherwise for an attention alone.
void add_own_values(const Protocol& protocol, const std::vector<std::string>& keys, Table& table) {
  for (const std::string& key : keys) {
    std::map<std::string, std::vector<std::string>> tasks;  // by "linformer 0.003"
    for (const auto& [name, value] : protocol.tasks.items()) {
      const std::string of_task = value_of(write_fields(task_settings(protocol, name)), key);
      std::set<std::string> attentions;
      for (const json& own : {protocol.attention_settings, attention_settings(protocol, name)}) {
        for (const auto& [attention, part] : own.items()) attentions.insert(attention);
      }
      for (const std::string& attention : attentions) {
        const std::string own =
            value_of(write_fields(task_settings(protocol, name, attention)), key);
        if (own != of_task) tasks[attention + " " + own].push_back(name);
      }
    }
    for (const auto& [own, names] : tasks)
      table.notes.push_back(fmt::format("{}: {} on {}", key, own, fmt::join(names, ", ")));
  }
}

void print_setting(const std::string& protocol_name, const std::string& key) {
  const Protocol protocol = load_protocol(protocol_name);
  Table table{
      .title = "",
      .columns = {{"setting", Align::kLeft}, {"meaning", Align::kLeft}, {"takes", Align::kLeft}}};
  std::vector<json> settings;
  for (const auto& [name, value] : protocol.tasks.items()) {
    table.columns.push_back({name});
    settings.push_back(write_fields(task_settings(protocol, name)));
  }
  const std::vector<std::string> keys = setting_keys(key);
  for (const std::string& each : keys) {
    table.rows.push_back({each, setting_meaning(each), accepted_setting(each)});
    for (const json& of_task : settings) table.rows.back().push_back(value_of(of_task, each));
  }
  add_own_values(protocol, keys, table);
  print_table(table);
  fmt::print("\nExample: --set {}={}\n", keys.front(), value_of(settings.front(), keys.front()));
}

}  // namespace lra
