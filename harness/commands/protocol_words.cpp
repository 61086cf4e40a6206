#include "harness/commands/protocol_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "attention_variants/base/json_text.h"
#include "lra/config/choices.h"
#include "lra/data/task.h"
#include "results/print/table.h"

namespace lra {
namespace {

constexpr size_t kColumns = 100;

// `first` and the words of `text` after it; further lines begin with as many spaces.
std::string wrapped(const std::string& first, const std::string& text) {
  const std::string indent(display_width(first), ' ');
  std::string result, line = first;
  size_t width = indent.size();
  bool empty = true;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    begin = end + 1;
    const size_t wide = display_width(word);
    if (!empty && width + 1 + wide > kColumns) {
      result += line + "\n";
      line = indent;
      width = indent.size();
      empty = true;
    }
    if (!empty) line += " ";
    width += wide + (empty ? 0 : 1);
    line += word;
    empty = false;
  }
  return result + line + "\n";
}

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

using Line = std::pair<std::string, std::string>;  // what it is of, what it says
using Lines = std::vector<Line>;
using Place = std::pair<std::string, std::string>;  // task, attention; "": all

// Lines by task and attention.
class Outline {
 public:
  enum class Order { notes_first, notes_last };

  Outline(std::vector<std::string> tasks, Order order) : tasks_(std::move(tasks)), order_(order) {}

  Lines& at(const std::string& task, const std::string& attention) {
    return lines_[{task, attention}];
  }

  // What all tasks say of an attention stands once, under all tasks.
  void join_tasks() {
    if (tasks_.size() < 2) return;
    std::set<std::string> attentions;
    for (const auto& [place, lines] : lines_) attentions.insert(place.second);
    for (const std::string& attention : attentions) {
      const Lines first = at(tasks_[0], attention);
      for (const Line& line : first) {
        const bool everywhere = std::ranges::all_of(tasks_, [&](const std::string& task) {
          return std::ranges::count(at(task, attention), line) > 0;
        });
        if (!everywhere) continue;
        at("", attention).push_back(line);
        for (const std::string& task : tasks_) std::erase(at(task, attention), line);
      }
    }
  }

  // A line of `follows` or `choices`, where its subject is shown.
  void note(const std::string& kind, const std::string& text, const ProtocolPart& part) {
    const ChoiceSubject subject = choice_subject(text);
    if (!part.attention.empty() && !subject.attentions.empty() &&
        std::ranges::count(subject.attentions, part.attention) == 0)
      return;
    const std::string attention = subject.attentions.size() == 1 ? subject.attentions[0] : "";
    if (subject.tasks.empty()) notes_[{"", attention}].emplace_back(kind, text);
    for (const std::string& task : subject.tasks) {
      if (std::ranges::count(tasks_, task) > 0) notes_[{task, attention}].emplace_back(kind, text);
    }
  }

  // `print` makes text of the lines of one place.
  std::string text(std::string (*print)(const Lines&, const std::string& attention)) const {
    std::string result;
    std::vector<std::string> headings{""};
    headings.insert(headings.end(), tasks_.begin(), tasks_.end());
    for (const std::string& task : headings) {
      std::string body;
      std::set<std::string> attentions;
      for (const auto* all : {&lines_, &notes_}) {
        for (const auto& [place, lines] : *all) {
          if (place.first == task && !lines.empty()) attentions.insert(place.second);
        }
      }
      for (const std::string& attention : attentions) {
        if (!attention.empty()) body += fmt::format("  {}\n", attention);
        const std::string indent(attention.empty() ? 2 : 4, ' ');
        std::string notes;
        for (const auto& [kind, line] : of(notes_, task, attention))
          notes += wrapped(fmt::format("{}{}: ", indent, kind), line);
        const std::string values = print(of(lines_, task, attention), attention);
        body += order_ == Order::notes_first ? notes + values : values + notes;
      }
      if (!body.empty())
        result += fmt::format("\n{}\n{}", task.empty() ? "all tasks" : "task " + task, body);
    }
    return result;
  }

 private:
  using Places = std::map<Place, Lines>;

  static Lines of(const Places& places, const std::string& task, const std::string& attention) {
    const auto it = places.find({task, attention});
    return it == places.end() ? Lines() : it->second;
  }

  std::vector<std::string> tasks_;
  Order order_;
  Places lines_, notes_;
};

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

std::vector<std::string> attentions_of(const ProtocolPart& part) {
  if (!part.attention.empty()) return {part.attention};
  std::vector<std::string> names;
  for (const AttentionEntry* entry : attention_entries()) names.push_back(entry->info.name);
  return names;
}

Config config_of(const Protocol& protocol, const std::string& task, const std::string& attention) {
  const TrainingDtype dtype = task_settings(protocol, task, attention).training.dtype;
  return make_config(protocol, task, parse_attention(attention), {}, 0,
                     dtype == TrainingDtype::any ? "float32" : to_string(dtype));
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
    return lines.empty() ? "" : wrapped("    ", fmt::format("{}", fmt::join(parts, "; ")));
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
    text += wrapped(group.empty() ? "  " : fmt::format("  {}: ", group),
                    fmt::format("{}", fmt::join(values, ", ")));
  }
  return text;
}

std::string print_changes(const Lines& lines, const std::string& attention) {
  std::string text;
  for (const auto& [key, value] : lines)
    text += wrapped(attention.empty() ? "  " : "    ", key + ": " + value);
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

// What a protocol makes of a variant: which runs, its settings against the task's, its options
// against their defaults.
Lines variant_lines(const Protocol& protocol, const std::string& task,
                    const std::string& attention) {
  const Config config = config_of(protocol, task, attention);
  Lines lines;
  if (config.attention.name != attention)
    lines.emplace_back("runs", attention + " → " + config.attention.name);
  append(lines,
         changes(write_fields(task_settings(protocol, task)), write_fields(config.settings)));
  append(lines, changes(attention_entry(config.attention.name).default_options,
                        config.attention_options, "option "));
  return lines;
}

// What differs of a variant beyond what differs of its task.
Lines variant_changes(const Protocol& left, const Protocol& right, const std::string& task,
                      const std::string& attention, const Lines& of_task) {
  const Config a = config_of(left, task, attention), b = config_of(right, task, attention);
  Lines lines;
  if (a.attention.name != b.attention.name)
    lines.emplace_back("runs", a.attention.name + " → " + b.attention.name);
  const json a_settings = write_fields(a.settings), b_settings = write_fields(b.settings);
  const Lines own = changes(a_settings, b_settings);
  for (const Line& line : own) {
    if (std::ranges::count(of_task, line) == 0) lines.push_back(line);
  }
  Lines flat;
  add_flat(a_settings, "", flat);
  for (const auto& [key, value] : of_task) {
    const auto same = [&key = key](const Line& line) { return line.first == key; };
    if (std::ranges::any_of(own, same)) continue;
    if (const auto it = std::ranges::find_if(flat, same); it != flat.end())
      lines.emplace_back(key, it->second + " in both");
  }
  append(lines, changes(a.attention_options, b.attention_options, "option "));
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
    for (const std::string& attention : attentions_of(part))
      outline.at(task, attention) = variant_lines(protocol, task, attention);
  }
  outline.join_tasks();
  note_own(protocol.follows, {}, "follows", part, outline);
  note_own(protocol.choices, {}, "differs", part, outline);
  return fmt::format("{}{}{}", wrapped(protocol.name + ": ", protocol.title),
                     wrapped("source: ", protocol.source), outline.text(print_settings));
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
    of_task =
        changes(write_fields(task_settings(left, task)), write_fields(task_settings(right, task)));
    for (const std::string& attention : attentions_of(part))
      outline.at(task, attention) = variant_changes(left, right, task, attention, of_task);
  }
  outline.join_tasks();
  for (const auto& [of, other] : {std::pair(&left, &right), std::pair(&right, &left)}) {
    note_own(of->follows, other->follows, of->name + " follows", part, outline);
    note_own(of->choices, other->choices, of->name + " differs", part, outline);
  }
  return fmt::format("{} → {}\n{}", left.name, right.name, outline.text(print_changes));
}

}  // namespace lra
