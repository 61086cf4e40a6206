#include "harness/tune/tuned_protocol.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "attention_variants/base/files.h"
#include "attention_variants/base/text.h"
#include "harness/suite/suite.h"
#include "harness/tune/choose.h"
#include "lra/config/choices.h"
#include "lra/config/protocol.h"

namespace lra::tune {
namespace {

namespace fs = std::filesystem;

// "optimizer.lr 0.001, schedule.warmup 100"
std::string values_text(const Point& point) {
  std::string text = point_text(point);
  std::ranges::replace(text, '=', ' ');
  return text;
}

// What a line of a choice is of, and what was chosen: it names variant and task first
// (choice_subject), and where that cannot tell the attention, the task.
std::string chosen_text(const std::string& task, const ChosenPoint& chosen) {
  const std::string name = parse_attention(chosen.attention).name,
                    values = values_text(chosen.point);
  if (!runs_by_name(name))
    return fmt::format("{}: {} of {} by lra tune", task, values, chosen.attention);
  const std::string of = name == chosen.attention ? "" : " of " + chosen.attention;
  return fmt::format("{} on {}: {} by lra tune{}", name, task, values, of);
}

// Of an attention, those with a seed that did not end as ok: " (2 of them diverged)".
std::string left_out_text(const TuneFile& file, const std::string& attention) {
  const auto left_out = std::ranges::count_if(scores_of(file), [&](const Score& score) {
    return score.attention == attention && !score.is_whole();
  });
  return left_out == 0 ? "" : fmt::format(" ({} of them diverged)", left_out);
}

std::string choice_line(const TuneFile& file, const ChosenPoint& chosen) {
  const int64_t equal = equal_points(file, chosen);
  std::string line = fmt::format(
      "{}: mean dev accuracy {:.2f} % over {} {}, the {} of {}", chosen_text(file.task, chosen),
      100 * chosen.dev, plural("seed", file.seeds.size()), fmt::join(file.seeds, ", "),
      equal > 1 ? fmt::format("first of {} that are equal and the highest", equal) : "highest",
      count_text(file.points.size(), "point"));
  line += left_out_text(file, chosen.attention);
  if (has_unlike_steps(file)) line += fmt::format("; {}", kUnlikeSteps);
  if (const std::string kind = data_kind(file); !kind.empty()) line += ", on " + kind;
  if (!file.sets.empty()) line += fmt::format(", under {}", fmt::join(file.sets, ", "));
  return line;
}

// What a choice says of seeds that did not learn the task.
std::string learned_text(const ChosenPoint& chosen) {
  if (chosen.learning_unknown) return "; of some seeds it is not known whether they learned";
  if (chosen.learned == 0)
    return "; no seed left the most frequent label, so that the search says nothing of it";
  if (chosen.learned == chosen.seeds) return "";
  return fmt::format("; learned by {} of {} seeds", chosen.learned, chosen.seeds);
}

// A line of a choice without what it is of.
std::string said_of(const std::string& line) {
  return std::string(strip(std::string_view(line).substr(line.find(':') + 1)));
}

// A choice that says there is no tuning by variant holds for the other tasks alone from now on.
void leave_to_other_tasks(const std::string& tuned, Protocol& protocol) {
  std::vector<std::string> lines;
  for (const std::string& line : protocol.choices) {
    const ChoiceSubject subject = choice_subject(line);
    const bool of_all = subject.tasks.empty();
    std::vector<std::string> tasks = subject.tasks;
    for (const auto& [name, entry] : protocol.tasks.items()) {
      if (of_all) tasks.push_back(name);
    }
    if (line.find(kUntuned) == std::string::npos || !subject.attentions.empty() ||
        std::erase(tasks, tuned) == 0) {
      lines.push_back(line);
    } else if (!tasks.empty()) {
      lines.push_back(fmt::format("{}: {}", fmt::join(tasks, ", "), of_all ? line : said_of(line)));
    }
  }
  protocol.choices = std::move(lines);
}

// The keys of a line's values, "optimizer.lr 0.001, schedule.warmup 3".
std::vector<std::string> keys_of(const std::string& values) {
  std::vector<std::string> keys;
  for (const std::string& word : split_at_commas(values)) {
    const std::string setting(strip(word));
    keys.push_back(setting.substr(0, setting.find_first_of(" =")));
  }
  return keys;
}

// Of a line on an attention from a file, "listops: VALUES of python:my.py:Mine by lra tune: ...",
// where its values end; npos where it is of another file or class, with whatever options.
size_t end_of_values(const std::string& line, const std::string& entry) {
  const size_t of = line.find(" of " + entry.substr(0, entry.find(':') + 1)),
               end = line.find(" by lra tune");
  if (of == std::string::npos || end == std::string::npos || end < of) return std::string::npos;
  const std::string named = line.substr(of + 4, end - of - 4);
  const bool same = named == entry || named.starts_with(entry + "[");
  return same ? of : std::string::npos;
}

// A choice's values, behind what it is of: "optimizer.lr 0.001" of "... by lra tune: ...".
std::string values_in(const std::string& line, size_t end) {
  const std::string said = said_of(line.substr(0, end));
  return said.substr(0, std::min(said.find(" by lra tune"), said.find(';')));
}

// What a line of choices says of an attention on a task, and the lines that it says of others: of
// "nystrom, linear on listops: optimizer.lr 0.001" for linear that of nystrom.
struct OwnChoice {
  std::string subject, values;
  std::vector<std::string> others;
};

// Nothing of a line that is not of the attention.
std::optional<OwnChoice> own_choice(const std::string& line, const std::string& task,
                                    const AttentionSpec& attention) {
  if (!runs_by_name(attention.name)) {
    const size_t end = end_of_values(line, entry_name(attention));
    if (!line.starts_with(task + ": ") || end == std::string::npos) return std::nullopt;
    return OwnChoice{.subject = task, .values = values_in(line, end), .others = {}};
  }
  ChoiceSubject subject = choice_subject(line);
  if (std::erase(subject.attentions, attention.name) == 0) return std::nullopt;
  if (std::erase(subject.tasks, task) == 0) return std::nullopt;
  OwnChoice own{.subject = fmt::format("{} on {}", attention.name, task),
                .values = values_in(line, std::string::npos),
                .others = {}};
  if (!subject.tasks.empty())
    own.others.push_back(
        fmt::format("{} on {}: {}", attention.name, fmt::join(subject.tasks, ", "), said_of(line)));
  if (!subject.attentions.empty()) {
    subject.tasks.push_back(task);
    own.others.push_back(fmt::format("{} on {}: {}", fmt::join(subject.attentions, ", "),
                                     fmt::join(subject.tasks, ", "), said_of(line)));
  }
  return own;
}

// What was chosen for the attention earlier holds no more in the keys of this search.
void forget_choice(const std::string& task, const ChosenPoint& chosen, Protocol& protocol) {
  constexpr std::string_view kAnew = "; chosen anew since: ";
  const AttentionSpec attention = parse_attention(chosen.attention);
  std::vector<std::string> lines;
  for (const std::string& line : protocol.choices) {
    const auto own = own_choice(line, task, attention);
    const std::vector<std::string> keys = own ? keys_of(own->values) : std::vector<std::string>{};
    const size_t anew = line.find(kAnew);
    std::vector<std::string> replaced =
        keys_of(anew == std::string::npos ? "" : line.substr(anew + kAnew.size()));
    std::erase(replaced, "");
    const size_t before = replaced.size();
    for (const std::string& key : keys) {
      const auto sets = [&](const std::string& one) { return one.starts_with(key + "="); };
      if (std::ranges::any_of(chosen.point, sets) && std::ranges::count(replaced, key) == 0)
        replaced.push_back(key);
    }
    if (!own || replaced.size() == before) {
      lines.push_back(line);
      continue;
    }
    lines.insert(lines.end(), own->others.begin(), own->others.end());
    if (replaced.size() < keys.size())
      lines.push_back(fmt::format("{}: {}{}{}", own->subject, said_of(line.substr(0, anew)), kAnew,
                                  fmt::join(replaced, ", ")));
  }
  protocol.choices = std::move(lines);
}

// The values of all tasks: what decides how runs under the protocol train.
std::string values_hash(const Protocol& protocol) {
  json values = protocol_json(protocol);
  for (const char* said : {"name", "title", "follows", "choices"}) values.erase(said);
  return sha256(values.dump()).substr(0, 8);
}

// Copies a file of another protocol before it is replaced, as runs under that go on with it; where
// to. What cannot be read is kept by its hash.
fs::path keep_earlier(const fs::path& path, const std::string& name) {
  std::error_code none;
  if (!fs::exists(path, none)) return {};
  const std::string bytes = read_file(path);
  std::string earlier;
  try {
    earlier = suite::folder_name(load_protocol(path.string()).name);
  } catch (const Error&) {
    earlier = "protocol-" + sha256(bytes).substr(0, 8);
  }
  if (earlier == suite::folder_name(name)) return {};
  const fs::path kept = path.parent_path() / (earlier + ".json");
  write_file(kept, bytes);
  return kept;
}

}  // namespace

TunedProtocol write_protocol(const TuneFile& file, const fs::path& out) {
  Protocol protocol = load_protocol(file.protocol);
  leave_to_other_tasks(file.task, protocol);
  for (const ChosenPoint& chosen : file.chosen) {
    const std::string entry = entry_name(parse_attention(chosen.attention));
    protocol = with_settings(std::move(protocol), file.task, entry, chosen.point);
    forget_choice(file.task, chosen, protocol);
    protocol.choices.push_back(choice_line(file, chosen) + learned_text(chosen));
  }
  // Runs with other values are of another protocol; a search that comes to the same ones, by more
  // points or seeds, leaves it what it was.
  protocol.name += "-tuned-" + values_hash(protocol);
  protocol.title += fmt::format("{}tuned on {}", protocol.title.empty() ? "" : ", ", file.task);
  const fs::path path = out / kTunedProtocol;
  const fs::path earlier = keep_earlier(path, protocol.name);
  write_json(path, protocol_json(protocol), Links::replace);
  return {.path = path, .earlier = earlier};
}

}  // namespace lra::tune
