#include "harness/overview/protocol_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>
#include <set>
#include <utility>

#include "attention_variants/base/json_text.h"
#include "harness/overview/outline.h"

namespace lra {
namespace {

// "[{match [slow], lr 0.001}]" of what is no single value: it can be broken between its words.
std::string value_text(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_structured()) return value.dump();
  std::vector<std::string> parts;
  for (const auto& [key, inner] : value.items())
    parts.push_back(value.is_object() ? key + " " + value_text(inner) : value_text(inner));
  const std::string text = fmt::format("{}", fmt::join(parts, ", "));
  return value.is_object() ? "{" + text + "}" : "[" + text + "]";
}
std::string value_text(const std::optional<json>& value) {
  return value ? value_text(*value) : "–";
}

using Line = Outline::Line;
using Lines = Outline::Lines;

// The tasks of a protocol that are asked for, in the order of the protocol.
std::vector<std::string> tasks_of(const Protocol& protocol, const ProtocolPart& part) {
  std::vector<std::string> names;
  if (!part.task.empty()) {
    task_settings(protocol, part.task);  // throws where it is not known
    return {part.task};
  }
  for (const auto& [name, entry] : protocol.tasks.items()) names.push_back(name);
  return names;
}

// All that run by their names, and those from files that a protocol has an entry for.
std::vector<std::string> attentions_of(const ProtocolPart& part,
                                       std::initializer_list<const Protocol*> protocols) {
  if (!part.attention.empty()) return {part.attention};
  std::vector<std::string> names;
  for (const AttentionEntry* entry : attention_entries()) names.push_back(entry->info.name);
  std::set<std::string> of_files;
  for (const Protocol* protocol : protocols) {
    for (const auto& [task, settings] : protocol->tasks.items()) {
      const json entries = attention_settings(*protocol, task);
      for (const auto& [name, entry] : entries.items()) {
        if (names_file(name)) of_files.insert(name);
      }
    }
  }
  names.insert(names.end(), of_files.begin(), of_files.end());
  return names;
}

// As runs have them.
json settings_in_runs(const Protocol& protocol, const std::string& task,
                      const std::string& attention = "") {
  return write_fields(with_rates(task_settings(protocol, task, attention)));
}

// What a protocol makes of an attention.
struct Meant {
  std::string runs;
  json settings, options = json::object(), defaults = json::object();
};

// The file of one that is not asked for by name is not opened, as it need not be there: its entry
// has settings alone.
Meant meant_by(const Protocol& protocol, const std::string& task, const std::string& attention,
               const ProtocolPart& part) {
  if (part.attention.empty() && names_file(attention)) {
    const bool has_entry = attention_settings(protocol, task).contains(attention);
    return {.runs = attention,
            .settings = settings_in_runs(protocol, task, has_entry ? attention : "")};
  }
  const TrainingDtype dtype = task_settings(protocol, task, attention).training.dtype;
  const AttentionSpec named = parse_attention(attention);
  const Config config = make_config(protocol, task, named, {}, 0,
                                    dtype == TrainingDtype::any ? "float32" : to_string(dtype));
  const bool renamed = config.attention.name != named.name;
  return {.runs = renamed ? config.attention.name : attention,
          .settings = write_fields(config.settings),
          .options = config.attention_options,
          .defaults = attention_entry(config.attention.name).default_options};
}

Lines changes(const json& from, const json& to, const std::string& prefix = "") {
  Lines lines;
  for (const JsonDifference& d : json_differences(from, to))
    lines.emplace_back(prefix + d.path, value_text(d.left) + " → " + value_text(d.right));
  return lines;
}

void append(Lines& lines, const Lines& more) {
  lines.insert(lines.end(), more.begin(), more.end());
}

// "model: layers 4, width 512": the lines of a group in one.
std::string print_settings(const Lines& lines, const std::string& attention) {
  std::string text;
  if (!attention.empty()) {
    std::vector<std::string> parts;
    for (const auto& [key, value] : lines) parts.push_back(key + ": " + value);
    return lines.empty() ? "" : hanging("    ", fmt::format("{}", fmt::join(parts, "; ")));
  }
  std::vector<std::pair<std::string, std::vector<std::string>>> groups;
  for (const auto& [key, value] : lines) {
    const size_t dot = key.find('.');
    const std::string group = dot == std::string::npos ? "" : key.substr(0, dot);
    if (groups.empty() || groups.back().first != group) groups.push_back({group, {}});
    groups.back().second.push_back(
        fmt::format("{} {}", dot == std::string::npos ? key : key.substr(dot + 1), value));
  }
  for (const auto& [group, values] : groups) {
    text += hanging(group.empty() ? "  " : fmt::format("  {}: ", group),
                    fmt::format("{}", fmt::join(values, ", ")));
  }
  return text;
}

std::string print_changes(const Lines& lines, const std::string& attention) {
  std::string text;
  for (const auto& [key, value] : lines)
    text += hanging(attention.empty() ? "  " : "    ", key + ": " + value);
  return text;
}

void add_flat(const json& value, const std::string& path, Lines& lines) {
  for (const auto& [key, inner] : value.items()) {
    const std::string name = path.empty() ? key : path + "." + key;
    if (inner.is_object()) {
      add_flat(inner, name, lines);
    } else {
      lines.emplace_back(name, value_text(inner));
    }
  }
}

// Which runs for a name, its settings against the task's, its options against their defaults.
Lines variant_lines(const Protocol& protocol, const std::string& task, const std::string& attention,
                    const ProtocolPart& part) {
  const Meant meant = meant_by(protocol, task, attention, part);
  Lines lines;
  if (meant.runs != attention) lines.emplace_back("runs", attention + " → " + meant.runs);
  append(lines, changes(settings_in_runs(protocol, task), meant.settings));
  append(lines, changes(meant.defaults, meant.options, "option "));
  return lines;
}

// What differs of a variant beyond what differs of its task.
Lines variant_changes(const Meant& a, const Meant& b, const Lines& of_task) {
  Lines lines;
  if (a.runs != b.runs) lines.emplace_back("runs", a.runs + " → " + b.runs);
  const Lines own = changes(a.settings, b.settings);
  for (const Line& line : own) {
    if (std::ranges::count(of_task, line) == 0) lines.push_back(line);
  }
  Lines flat;
  add_flat(a.settings, "", flat);
  for (const auto& [key, value] : of_task) {
    const auto same = [&key = key](const Line& line) { return line.first == key; };
    if (std::ranges::any_of(own, same)) continue;
    if (const auto it = std::ranges::find_if(flat, same); it != flat.end())
      lines.emplace_back(key, it->second + " in both");
  }
  append(lines, changes(a.options, b.options, "option "));
  return lines;
}

// The lines of `of` that `other` does not have.
void note_own(const std::vector<std::string>& of, const std::vector<std::string>& other,
              const std::string& kind, const ProtocolPart& part, Outline& outline) {
  for (const std::string& line : of) {
    if (std::ranges::count(other, line) == 0) outline.note(kind, line, part);
  }
}

}  // namespace

std::string protocol_words(const Protocol& protocol, const ProtocolPart& part) {
  const std::vector<std::string> tasks = tasks_of(protocol, part);
  Outline outline(tasks, Outline::Order::notes_first);
  for (const std::string& task : tasks) {
    add_flat(write_fields(task_settings(protocol, task)), "", outline.at(task, ""));
    for (const std::string& attention : attentions_of(part, {&protocol}))
      outline.at(task, attention) = variant_lines(protocol, task, attention, part);
  }
  outline.join_tasks();
  note_own(protocol.follows, {}, "follows", part, outline);
  note_own(protocol.choices, {}, "differs", part, outline);
  const std::string head =
      protocol.title.empty() ? protocol.name + "\n" : hanging(protocol.name + ": ", protocol.title);
  return head + (protocol.source.empty() ? "" : hanging("source: ", protocol.source)) +
         outline.text(print_settings);
}

std::string difference_words(const Protocol& left, const Protocol& right,
                             const ProtocolPart& part) {
  std::vector<std::string> tasks = tasks_of(left, part), alone;
  for (const std::string& task : tasks_of(right, part)) {
    if (std::ranges::count(tasks, task) == 0) alone.push_back(task);
  }
  std::vector<std::string> all = tasks;
  all.insert(all.end(), alone.begin(), alone.end());
  Outline outline(all, Outline::Order::notes_last);
  for (const std::string& task : alone) outline.at(task, "") = {{"only in", right.name}};
  for (const std::string& task : tasks) {
    Lines& of_task = outline.at(task, "");
    if (!right.tasks.contains(task)) {
      of_task = {{"only in", left.name}};
      continue;
    }
    of_task = changes(settings_in_runs(left, task), settings_in_runs(right, task));
    for (const std::string& attention : attentions_of(part, {&left, &right})) {
      outline.at(task, attention) = variant_changes(
          meant_by(left, task, attention, part), meant_by(right, task, attention, part), of_task);
    }
  }
  outline.join_tasks();
  for (const auto& [of, other] : {std::pair(&left, &right), std::pair(&right, &left)}) {
    note_own(of->follows, other->follows, of->name + " follows", part, outline);
    note_own(of->choices, other->choices, of->name + " differs", part, outline);
  }
  return fmt::format("{} → {}\n{}", left.name, right.name, outline.text(print_changes));
}

}  // namespace lra
