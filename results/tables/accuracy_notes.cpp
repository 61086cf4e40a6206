#include "results/tables/accuracy_notes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "attention_variants/base/text.h"
#include "results/analysis/contract_notes.h"
#include "results/analysis/standings.h"
#include "results/tables/accuracy_table.h"
#include "results/tables/published_table.h"

namespace lra {
namespace {

// Which rows of a task did not learn it, and in how many of their seeds.
void note_unlearned(const RecipeGroup& group, const AccuracyCells& cells, const std::string& task,
                    std::vector<std::string>& notes) {
  const Baseline baseline = baseline_of(group, task);
  std::vector<std::string> rows;
  for (const auto& [key, cell] : cells) {
    if (key.second != task) continue;
    const size_t failed = cell.ok.size() - cell.learned.size(), of = cell.learned_count().of;
    if (failed == 0) continue;
    rows.push_back(of == 1 ? key.first : fmt::format("{} ({} of {} seeds)", key.first, failed, of));
  }
  if (rows.empty()) return;
  notes.push_back(fmt::format("WARNING: {} was not learned by {}: {}", task, fmt::join(rows, ", "),
                              unlearned_text(baseline)));
}

// Of which rows of a task seeds diverged, beside others that did not.
void note_diverged(const AccuracyCells& cells, const std::string& task,
                   std::vector<std::string>& notes) {
  std::vector<std::string> rows;
  for (const auto& [key, cell] : cells) {
    if (key.second == task && cell.learned_count().of > 1 && cell.diverged > 0)
      rows.push_back(fmt::format("{} ({})", key.first, cell.diverged_text()));
  }
  if (rows.empty()) return;
  notes.push_back(
      fmt::format("WARNING: {} was not learned by all seeds of {}: a mean is that of the others "
                  "alone, and never bold nor the best",
                  task, fmt::join(rows, ", ")));
}

// Why runs have no accuracy: one line a status, with how many share it.
void note_failures(const RecipeGroup& group, std::vector<std::string>& notes) {
  std::map<std::string, std::set<std::string>> reasons;
  for (const auto& [r, name] : row_names(group)) {
    if (r->status != Status::ok && !r->reason.empty())
      reasons[to_string(r->status)].insert(
          fmt::format("{} on {}, seed {}: {}", name, r->task, r->seed, r->reason));
  }
  for (std::string& line : first_of_each(reasons)) notes.push_back(std::move(line));
}

// Which rows are not distinguishable from the best of a task.
void note_standing(const std::vector<Standing>& all, const AccuracyCells& cells,
                   const std::string& task, std::vector<std::string>& notes) {
  const auto of_task = [&task](const auto& entry) {
    return entry.first.second == task && entry.second.learned_count().of > 0;
  };
  const auto learned = [&](const auto& entry) {
    return of_task(entry) && !entry.second.learned.empty();
  };
  if (std::ranges::count_if(cells, of_task) > 1 && std::ranges::none_of(cells, learned))
    notes.push_back(fmt::format("{}: no attention learned it, so that none is the best", task));
  std::string best;
  std::vector<std::string> indistinguishable, below, untested;
  for (const Standing& standing : all) {
    if (standing.task != task) continue;
    if (standing.place == Standing::Place::best) best = standing.row;
    if (standing.place == Standing::Place::indistinguishable)
      indistinguishable.push_back(standing.row);
    if (standing.place == Standing::Place::below) below.push_back(standing.row);
    if (standing.place == Standing::Place::untested)
      untested.push_back(fmt::format("{} ({})", standing.row, standing.reason));
  }
  if (best.empty()) return;
  std::string text = fmt::format("{}: best {}", task, best);
  if (!indistinguishable.empty())
    text += fmt::format("; not distinguishable from it: {}", fmt::join(indistinguishable, ", "));
  if (!below.empty()) text += fmt::format("; below it: {}", fmt::join(below, ", "));
  if (!untested.empty()) text += fmt::format("; not tested: {}", fmt::join(untested, ", "));
  notes.push_back(text);
}

// By which tests differences were tried, of those that were.
void note_tests(const std::vector<Standing>& all, const AccuracyCells& cells,
                std::vector<std::string>& notes) {
  constexpr std::pair<const char*, const char*> kTests[] = {
      {"McNemar", "single runs: exact McNemar test"},
      {"Welch", "seeds: Welch's t test with the sampling of the test set that they share"},
      {"rank sum",
       "where not all seeds learned the task: exact rank-sum test of the seeds, on this test set"}};
  std::vector<std::string> used;
  std::ptrdiff_t tests = 0;
  for (const auto& [test, text] : kTests) {
    const auto count = std::ranges::count(all, test, &Standing::test);
    if (count > 0) used.emplace_back(text);
    tests += count;
  }
  const bool passed_over = has_lone_seeds(cells);
  if (all.empty() || (tests == 0 && !passed_over)) return;
  std::string text = "best: the highest mean";
  if (passed_over) text += " of several seeds, single ones passed over";
  if (tests > 0) {
    text += fmt::format("; differences to it are tested at {:g} % ({}), Holm's correction over {}",
                        100 * kSignificance, fmt::join(used, "; "), count_text(tests, "test"));
  }
  notes.push_back(text);
}

// Runs of one seed that ought to be the same.
void note_disagreeing(const AccuracyCells& cells, std::vector<std::string>& notes) {
  for (const auto& [key, cell] : cells) {
    for (const auto& [first, other] : cell.disagreeing) {
      notes.push_back(fmt::format(
          "WARNING: seed {} of {} on {} ran more than once and came to {:.2f} % ({}) and {:.2f} % "
          "({}); the first counts",
          first->seed, key.first, key.second, 100 * first->test->accuracy, first->path,
          100 * other->test->accuracy, other->path));
    }
  }
}

// What the runs are, whatever they are compared with.
void note_runs(const RecipeGroup& group, const AccuracyCells& cells,
               const std::vector<std::string>& tasks, std::vector<std::string>& notes) {
  bool single = false, several = false, repeated = false, some_learned = false;
  bool at_positions = false;
  std::map<std::string, std::set<std::string>> sources;  // of what is not generated, by task
  for (const auto& [key, cell] : cells) {
    single |= cell.ok.size() == 1;
    several |= cell.ok.size() > 1;
    repeated |= cell.repeated > 0;
    const LearnedCount count = cell.learned_count();
    some_learned |= count.of > 1 && count.learned < count.of;
    for (const Result* r : cell.ok) {
      at_positions |= r->test->samples.has_value();
      const std::string& source = r->data.source;
      if (!source.empty() && source != "generated") sources[key.second].insert(source);
    }
  }
  const char* synthetic = "synthetic: stand-in data, comparable with no published number";
  if (!group.synthetic.empty())
    notes.push_back(
        group.synthetic.size() == tasks.size()
            ? synthetic
            : fmt::format("{} {}: {}", kStandInMark, fmt::join(group.synthetic, ", "), synthetic));
  for (std::string& note : recipe_notes(group, tasks)) notes.push_back(std::move(note));
  if (single)
    notes.push_back(
        "test accuracy in % [95 % interval]: Wilson's interval of one run, which is the sampling "
        "of the test set alone");
  if (several)
    notes.push_back(
        "n seeds: their mean, and its 95 % interval by them and by the sampling of the test set "
        "that they share, no narrower than Student's of the seeds");
  if (at_positions)
    notes.push_back(
        "labels at positions: Wilson's interval is that of their effective number, over seeds of "
        "the number of samples, as those of one sample are not independent");
  if (some_learned)
    notes.push_back(
        "learned: seeds that left the most frequent label on dev and on test, then their mean "
        "alone; where attentions differ in that, a difference is tested by the seeds' ranks, from "
        "5 a side on");
  if (tasks.size() > 1)
    notes.push_back("average: the interval follows from those of the tasks, which are independent");
  note_disagreeing(cells, notes);
  if (repeated) notes.push_back("a seed that ran more than once counts once, the first by path");
  for (const auto& [task, names] : sources)
    notes.push_back(fmt::format("data of {}: {}", task, fmt::join(names, "; ")));
}

// Where the published numbers are from, and what differs from the runs here.
void note_published(const RecipeGroup& group, const AccuracyCells& cells,
                    const std::vector<std::string>& tasks, const Published& reference,
                    std::vector<std::string>& notes) {
  const PublishedAccuracy& accuracy = *reference.accuracy;
  note_beside(reference, group.protocol, notes);
  note_released_forms(reference, group.results, notes);
  for (const std::string& task : tasks) {
    const auto published_count = accuracy.test_examples.find(task);
    if (published_count == accuracy.test_examples.end()) continue;
    std::set<int64_t> counts;
    for (const auto& [key, cell] : cells) {
      for (const Result* r : cell.ok) {
        if (key.second == task) counts.insert(r->test->count);
      }
    }
    counts.erase(published_count->second);
    if (!counts.empty()) {
      notes.push_back(fmt::format("{}: {} test examples here, {} in the published runs", task,
                                  fmt::join(counts, " or "), published_count->second));
    }
  }
}

// Whose test accuracies chose what was tested.
void note_choice(const AccuracyCells& cells, std::vector<std::string>& notes) {
  std::set<std::string> tasks;
  for (const auto& [key, cell] : cells) {
    if (std::ranges::any_of(cell.ok, [](const Result* r) { return chosen_on_test(*r); }))
      tasks.insert(key.second);
  }
  if (tasks.empty()) return;
  notes.push_back(fmt::format("{}: {}", fmt::join(tasks, ", "), kChosenOnTest));
}

// Rows whose pattern hides nothing at the length of their runs, by task.
void note_sees_all(const AccuracyCells& cells, const std::vector<std::string>& tasks,
                   std::vector<std::string>& notes) {
  for (const std::string& task : tasks) {
    std::vector<std::string> rows;
    for (const auto& [key, cell] : cells) {
      const auto sees_all = [](const Result* r) { return r->attention.sees_all.value_or(false); };
      if (key.second == task && std::ranges::any_of(cell.ok, sees_all)) rows.push_back(key.first);
    }
    if (rows.empty()) continue;
    notes.push_back(
        fmt::format("{}: at the length of these runs every position sees all others in "
                    "{}, which is softmax attention there",
                    task, fmt::join(rows, ", ")));
  }
}

}  // namespace

std::vector<std::string> accuracy_notes(const RecipeGroup& group, const AccuracyCells& cells,
                                        const std::vector<std::string>& tasks,
                                        const Published* reference) {
  std::vector<std::string> notes;
  for (const std::string& task : tasks) note_unlearned(group, cells, task, notes);
  for (const std::string& task : tasks) note_diverged(cells, task, notes);
  note_failures(group, notes);
  const std::vector<Standing> all = standings(cells);
  for (const std::string& task : tasks) note_standing(all, cells, task, notes);
  note_tests(all, cells, notes);
  note_choice(cells, notes);
  note_sees_all(cells, tasks, notes);
  for (std::string& note : contract_notes(group)) notes.push_back(std::move(note));
  note_runs(group, cells, tasks, notes);
  if (reference == nullptr) {
    notes.push_back("no published numbers for protocol " + group.protocol);
  } else if (shows_published(group)) {
    note_published(group, cells, tasks, *reference, notes);
  } else {
    notes.push_back("published numbers are of another recipe: a table of its own has them");
  }
  std::set<std::string> machines;
  for (const auto& [key, cell] : cells) {
    for (const Result* r : cell.ok) machines.insert(machine_text(r->machine));
  }
  if (!machines.empty()) notes.push_back(fmt::format("trained on: {}", fmt::join(machines, "; ")));
  return notes;
}

}  // namespace lra
