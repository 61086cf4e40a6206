#include "harness/suite/suite.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <set>

#include "attention_variants/base/error.h"
#include "attention_variants/base/files.h"
#include "attention_variants/base/text.h"
#include "harness/training/resume.h"
#include "lra/config/embedded.h"
#include "results/records/file_names.h"

namespace lra::suite {
namespace {

namespace fs = std::filesystem;

// Of a folder, as file systems have it; longer ones end in digits that tell them apart.
constexpr size_t kLongestName = 255, kHashDigits = 16;

int64_t scaled(int64_t value, double fraction, int64_t least) {
  return std::max<int64_t>(std::llround(static_cast<double>(value) * fraction), least);
}

// With fewer steps of warm-up rsqrt would go higher, to lr / sqrt(warmup): its rates are to be
// those of the whole run.
void add_rates(const Settings& settings, double factor, const std::string& group,
               std::vector<std::string>& sets) {
  sets.push_back(fmt::format("{}optimizer.lr={}", group, settings.optimizer.lr * factor));
  json groups = settings.optimizer.groups;
  bool rated = false;
  for (json& one : groups) {
    if (!one.contains("lr")) continue;
    one["lr"] = one.at("lr").get<double>() * factor;
    rated = true;
  }
  if (rated) sets.push_back(fmt::format("{}optimizer.groups={}", group, groups.dump()));
}

// Of one run, whose settings stand in `group`: "", or "pretraining." of the run before, of which
// all are said, as it would have the cell's own where they are not.
std::vector<std::string> cut_of(const Config& config, double fraction, const std::string& group) {
  const TrainingOptions& t = config.settings.training;
  const ScheduleOptions& s = config.settings.schedule;
  const auto steps = static_cast<int64_t>(static_cast<double>(t.steps) * fraction);
  if (steps < 2) {
    throw UsageError(fmt::format(
        "--max-hours leaves {} of {} steps of {} {}; allow more hours, or run fewer cells",
        count_text(steps, "step"), t.steps, config.task, config.attention.text()));
  }
  std::vector<std::string> sets;
  const auto set = [&](const char* key, int64_t value) {
    sets.push_back(fmt::format("{}{}={}", group, key, value));
  };
  set("training.steps", steps);
  if (t.evaluate_every > steps || !group.empty())
    set("training.evaluate_every", std::min(t.evaluate_every, steps));
  if (s.warmup > 0) {
    int64_t warmup = scaled(s.warmup, fraction, 1);
    // Some kinds take a warm-up of no fewer steps than the run has, and keep it so.
    if (s.warmup < t.steps) warmup = std::min(warmup, steps - 1);
    set("schedule.warmup", warmup);
    if (s.kind == ScheduleKind::rsqrt && warmup != s.warmup) {
      add_rates(config.settings,
                std::sqrt(static_cast<double>(warmup) / static_cast<double>(s.warmup)), group,
                sets);
    }
  }
  if (s.kind == ScheduleKind::step && s.decay_every < t.steps)
    set("schedule.decay_every", std::min(scaled(s.decay_every, fraction, 1), steps - 1));
  return sets;
}

// What a budget sets for a cell.
struct BudgetWords {
  std::vector<std::string> sets, left;  // words of --set; keys that the protocol's entry goes over
};

void add_words(const std::string& key, const json& value, const std::vector<std::string>& own,
               BudgetWords& words) {
  if (std::ranges::count(own, key) > 0) {
    words.left.push_back(key);
  } else if (value.is_object() && !value.empty() && !own.empty()) {
    for (const auto& [inner, one] : value.items()) {
      if (!one.is_object() || !one.empty()) add_words(key + "." + inner, one, own, words);
    }
  } else {
    words.sets.push_back(fmt::format("{}={}", key, value.dump()));
  }
}

// The settings that an entry of the protocol gives this attention itself, and that a budget leaves:
// they were chosen for it. A budget has its own over a built-in protocol, whose values are
// of its whole schedule.
std::vector<std::string> own_settings(const Protocol& protocol, const std::string& task_name,
                                      const AttentionSpec& attention) {
  if (is_built_in(protocol.name)) return {};
  return entry_settings(protocol, task_name, attention);
}

// The settings that a budget shortens a run before by, where that has its own.
void add_pretraining(const TaskBudget& budget, const json& pretraining,
                     const std::vector<std::string>& own, BudgetWords& words) {
  BudgetWords before;
  for (const auto& [key, value] : budget.set.items()) {
    if (pretraining.contains(dotted_pointer(key)))
      add_words("pretraining." + key, value, own, before);
  }
  words.sets.insert(words.sets.begin(), before.sets.begin(), before.sets.end());
  words.left.insert(words.left.end(), before.left.begin(), before.left.end());
}

// Makes the configuration of words of --set.
using MakeConfig = std::function<Config(const std::vector<std::string>&)>;

// What `make` makes of these words. Where it makes something of none, and nothing of the budget's
// alone, the error is of the budget, whose words stand at `place`.
Config made_config(const MakeConfig& make, const std::vector<std::string>& words,
                   const std::vector<std::string>& of_budget, const std::string& place) {
  const auto makes = [&](const std::vector<std::string>& some) {
    try {
      make(some);
      return true;
    } catch (const UsageError&) {
      return false;
    }
  };
  try {
    return make(words);
  } catch (const UsageError&) {
    if (makes(of_budget)) throw;
    make({});  // or the error is of what goes before the budget
    read_at(place, [&] { make(of_budget); });
    throw;
  }
}

SuiteCell planned_cell(const SuiteRequest& request, const Protocol& protocol,
                       const std::string& task_name, const AttentionSpec& attention, uint64_t seed,
                       double fraction) {
  const TaskBudget budget = request.budget.task(task_name);
  const std::vector<std::string> own = own_settings(protocol, task_name, attention);
  BudgetWords words;
  for (const auto& [key, value] : budget.set.items()) add_words(key, value, own, words);
  const auto set = [&](const std::vector<std::string>& more) {
    words.sets.insert(words.sets.end(), more.begin(), more.end());
  };
  const MakeConfig make = [&](const std::vector<std::string>& sets) {
    return make_config(protocol, task_name, attention, sets, seed, request.dtype,
                       request.kept(attention).string());
  };
  const std::vector<std::string> of_budget = words.sets;
  set(request.sets);  // what the user sets goes last
  const auto leave_to_user = [&] {
    std::erase_if(words.left, [&](const std::string& key) {
      return std::ranges::any_of(request.sets,
                                 [&](const std::string& word) { return word_sets(word, key); });
    });
  };
  leave_to_user();
  std::string place = fmt::format("{}: tasks.{}.set", request.budget.place(), task_name);
  if (!words.left.empty())
    place += fmt::format(", beside what protocol {} has for {} itself ({})", protocol.name,
                         attention.text(), fmt::join(words.left, ", "));
  Config config = made_config(make, words.sets, of_budget, place);
  const size_t count = words.sets.size();
  add_pretraining(budget, config.settings.pretraining, own, words);
  leave_to_user();
  if (words.sets.size() > count) config = make(words.sets);
  const std::vector<std::string> cut = cut_sets(config, fraction);
  set(cut);
  if (!cut.empty()) config = make(words.sets);
  return {.config = std::move(config),
          .sets = words.sets,
          .run = request.out / kRunsFolder / task_name / folder_name(attention.text()) /
                 fmt::format("seed{}", seed),
          .left = words.left};
}

}  // namespace

std::string SuiteCell::label() const {
  return fmt::format("{} {} seed {}{}{}", config.task, config.attention.text(), config.seed,
                     point.empty() ? "" : ", ", point);
}

std::string ChangedFile::text() const {
  return fmt::format("{}; {} goes on with the file as it was, {}", what, attention, kept.string());
}

fs::path SuiteRequest::kept(const AttentionSpec& attention) const {
  const auto it = std::ranges::find(changed, attention.text(), &ChangedFile::attention);
  return it == changed.end() ? fs::path() : it->kept;
}

std::string folder_name(const std::string& text) {
  std::string name;
  for (const char c : text)
    name += std::isalnum(static_cast<unsigned char>(c)) || std::strchr("-_.=,[]", c) != nullptr
                ? c
                : '_';
  if (name.size() <= kLongestName) return name;
  return name.substr(0, kLongestName - 1 - kHashDigits) + '-' + sha256(name).substr(0, kHashDigits);
}

std::vector<std::string> cut_sets(const Config& config, double fraction) {
  if (fraction >= 1) return {};
  std::vector<std::string> sets = cut_of(config, fraction, "");
  if (!config.settings.pretraining.empty()) {
    const auto before = cut_of(pretraining_config(config), fraction, "pretraining.");
    sets.insert(sets.end(), before.begin(), before.end());
  }
  return sets;
}

void check_folders(const Suite& suite, const std::string& advice) {
  std::set<fs::path> folders;
  for (const SuiteCell& cell : suite.cells) {
    if (!folders.insert(cell.run).second) {
      throw UsageError(
          fmt::format("two cells would share the folder {}: {}", cell.run.string(), advice));
    }
  }
}

void check_attentions(const Suite& suite) {
  std::map<std::string, std::string> known;  // what a cell trains, and how its attention was named
  for (const SuiteCell& cell : suite.cells) {
    const Config& config = cell.config;
    const std::string text = config.attention.text();
    const auto [it, fresh] =
        known.emplace(fmt::format("{} {} {}", config.task, config.seed,
                                  attention_key(config.attention.name, config.attention_options)),
                      text);
    if (!fresh) {
      throw UsageError(
          fmt::format("--attentions names one attention twice, as {} and as {}", it->second, text));
    }
  }
}

std::vector<std::string> coloured_tasks(const Suite& suite) {
  std::map<std::string, const SuiteCell*> first;  // of each task
  std::vector<std::string> coloured;
  for (const SuiteCell& cell : suite.cells) {
    const auto [it, fresh] = first.emplace(cell.config.task, &cell);
    const Colours colours = cell.config.settings.input.colours,
                  known = it->second->config.settings.input.colours;
    if (colours != known) {
      throw UsageError(
          fmt::format("{} has input.colours {}, and {} {}: the cells of a task read the same data; "
                      "give --set input.colours=COLOURS to all, or each kind an --out folder of "
                      "its own",
                      it->second->label(), to_string(known), cell.label(), to_string(colours)));
    }
    if (fresh && colours == Colours::rgb) coloured.push_back(cell.config.task);
  }
  return coloured;
}

std::vector<std::string> left_notes(const Suite& suite) {
  // What is left, by whom and for whom, and its attentions, each once in the order of the cells.
  struct Left {
    LeftValue value;
    std::string of;
    std::vector<std::string> attentions;
  };
  std::vector<Left> all;
  for (const SuiteCell& cell : suite.cells) {
    const std::string name = cell.config.attention.text(), protocol = cell.config.protocol,
                      budget = "budget " + suite.request.budget.name;
    const auto add = [&](LeftValue value, const std::string& of) {
      value.attention.clear();
      auto it = std::ranges::find_if(
          all, [&](const Left& known) { return known.value == value && known.of == of; });
      if (it == all.end()) it = all.insert(it, {.value = value, .of = of, .attentions = {}});
      if (std::ranges::count(it->attentions, name) == 0) it->attentions.push_back(name);
    };
    for (const LeftValue& value : cell.config.left) add(value, protocol);
    for (const std::string& key : cell.left) {
      const auto known = std::ranges::find(cell.config.left, key, &LeftValue::key);
      const std::string by = known == cell.config.left.end() ? "protocol " + protocol : known->by;
      add({.task = cell.config.task, .attention = "", .key = key, .by = by}, budget);
    }
  }
  std::vector<std::string> notes;
  for (const Left& one : all) {
    notes.push_back(fmt::format("{}, not as {}",
                                one.value.text(fmt::format("{}", fmt::join(one.attentions, ", "))),
                                one.of));
  }
  return notes;
}

Suite plan_suite(const SuiteRequest& request, double fraction) {
  const Protocol protocol = load_protocol(request.protocol);
  Suite suite{.request = request, .fraction = fraction};
  for (const std::string& task_name : request.tasks) {
    for (const AttentionSpec& attention : request.attentions) {
      for (const uint64_t seed : request.seeds) {
        suite.cells.push_back(
            planned_cell(request, protocol, task_name, attention, seed, fraction));
      }
    }
  }
  check_folders(suite, "name each task, attention and seed once");
  coloured_tasks(suite);  // throws where the cells of one task want both kinds of data
  return suite;
}

}  // namespace lra::suite
