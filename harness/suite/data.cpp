#include "harness/suite/data.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <new>

#include "attention_variants/base/fields.h"
#include "attention_variants/base/file_errors.h"
#include "attention_variants/base/shell.h"
#include "harness/host/folder_lock.h"
#include "harness/host/memory.h"
#include "harness/host/progress.h"
#include "harness/host/signals.h"

namespace lra::suite {
namespace {

namespace fs = std::filesystem;

bool prepared(const fs::path& directory, const std::string& name) {
  return fs::exists(directory / name / kManifestFile);
}

PrepareOptions generated(const TaskBudget& budget, const DataSources& from) {
  return {.out = from.folder,
          .seed = budget.data_seed,
          .seed_given = budget.data_seed != 0,
          .train = budget.train,
          .dev = budget.dev,
          .test = budget.test,
          .min_length = budget.min_length,
          .max_length = budget.max_length,
          .resolution = budget.resolution,
          .difficulty = budget.difficulty,
          .threads = from.threads};
}

// Every source exists and serves a task, and a stand-in has a task to stand in for.
void check_sources(const std::vector<std::string>& names, const DataSources& from) {
  bool stands_in = false;
  for (const std::string& name : names) stands_in |= !task(name).stand_in.empty();
  if (from.synthetic && !stands_in) {
    std::string with;
    for (const Task* known : tasks()) {
      if (!known->stand_in.empty()) with += (with.empty() ? "" : ", ") + known->name;
    }
    throw UsageError(fmt::format("--synthetic makes a stand-in for {}, and the suite runs {}", with,
                                 fmt::join(names, ", ")));
  }
  for (const auto& [name, path] : from.sources) {
    const auto served = [&, &of = name](const std::string& other) {
      return other == of || (from.synthetic && task(other).stand_in == of);
    };
    if (std::ranges::none_of(names, served)) {
      throw UsageError(
          fmt::format("--source {}: the suite runs {}; name it in --tasks or leave the source out",
                      name, fmt::join(names, ", ")));
    }
    const bool needed = std::ranges::any_of(names, [&](const std::string& other) {
      return served(other) && !from.made.contains(other);
    });
    if (needed && !fs::exists(path)) {
      throw UsageError(
          fmt::format("--source {}={}: there is no such file or folder", name, path.string()));
    }
  }
}

// As lra data prepare has them: " --set colours=rgb".
std::string settings_words(const json& settings) {
  std::string words;
  for (const auto& [key, value] : settings.items())
    words += fmt::format(" --set {}={}", key, text_from_value(value));
  return words;
}

// Of a task's own generator.
json settings_of(const std::string& name, const DataSources& from) {
  const auto it = from.settings.find(name);
  return it == from.settings.end() ? json::object() : it->second;
}

// What is to be done where a task has no data.
std::string remedy(const Task& wanted, const DataSources& from) {
  const std::string& name = wanted.name;
  if (const std::string above = folder_above(from.given, name); !above.empty()) return above;
  if (wanted.source.empty()) {  // so it is missing from --data
    return fmt::format(
        "{} has none of {}; say with --data where they are, leave it out to have a new suite make "
        "them, or run: lra data prepare {} --out {}",
        from.given.string(), name, name, shell_word(from.given.string()));
  }
  std::string text = fmt::format("{} needs --source {}=PATH ({})", name, name, wanted.source);
  if (!wanted.stand_in.empty()) {
    text += fmt::format(", or for a labelled stand-in --synthetic --source {}=PATH ({})",
                        wanted.stand_in, task(wanted.stand_in).source);
  }
  return text + fmt::format(", or --data DIR after: lra data prepare {}{} --source PATH --out DIR",
                            name, settings_words(settings_of(name, from)));
}

// What is read from a source has lengths of its own.
void check_lengths_are_free(const std::string& name, const Budget& budget) {
  const TaskBudget of_task = budget.task(name);
  if (of_task.min_length < 0 && of_task.max_length < 0) return;
  throw UsageError(fmt::format(
      "--source {}: budget {} makes shorter samples (min_length, max_length), and those "
      "of a source have lengths of their own; leave the source out, or take a budget "
      "without these lengths, as paper",
      name, budget.name));
}

// What `lra data prepare` says of an option, as of the budget's key that it comes from:
// "--min-length should be ..." -> "budget file b.json: tasks.listops.min_length should be ...".
std::string budget_words(std::string said, const std::string& name, const Budget& budget) {
  constexpr std::string_view kSeed = "leave --seed out";
  if (said.ends_with(kSeed)) {
    said.replace(said.size() - kSeed.size(), kSeed.size(), "leave data_seed out");
    return fmt::format("{}: tasks.{}: {}", budget.place(), name, said);
  }
  if (said.find("--source") != std::string::npos) return said;  // that of the command line
  const std::string task_key = "tasks." + name;
  if (!said.starts_with("--")) return fmt::format("{}: {}: {}", budget.place(), task_key, said);
  const size_t end = said.find(' ');
  std::string key = said.substr(2, end - 2);
  std::ranges::replace(key, '-', '_');
  return fmt::format("{}: {}.{}{}", budget.place(), task_key, key, said.substr(end));
}

// One task's data, or nothing where there are none; in the order of locate_data.
std::optional<TaskData> find_data(const std::string& name, const Budget& budget,
                                  const DataSources& from) {
  const Task& wanted = task(name);
  TaskData data{.task = name, .directory = from.folder};
  PrepareOptions make = generated(budget.task(name), from);
  make.settings = settings_of(name, from);
  make.synthetic = from.synthetic && !wanted.stand_in.empty();
  const auto own = from.sources.find(name), other = from.sources.find(wanted.stand_in);
  if (from.made.contains(name)) return data;
  if (own != from.sources.end()) {
    check_lengths_are_free(name, budget);
    make.source = own->second;
    data.make = make;
  } else if (make.synthetic && other != from.sources.end()) {
    make.source = other->second;
    data.make = make;
  } else if (!from.given.empty() && prepared(from.given, name)) {
    data.directory = from.given;
  } else if (from.given.empty() && wanted.source.empty()) {
    data.make = make;
  } else if (!prepared(from.folder, name)) {
    return std::nullopt;
  }
  return data;
}

// Nothing can be renamed to a link or to a mounted folder: found before the work, not after it.
void check_place(const fs::path& folder) {
  std::error_code error;
  const bool link = fs::is_symlink(folder, error);
  struct stat there {
  }, above{};
  const bool mounted = stat(folder.c_str(), &there) == 0 &&
                       stat(folder.parent_path().c_str(), &above) == 0 &&
                       there.st_dev != above.st_dev;
  if (link || mounted) {
    throw Error(fmt::format(
        "cannot write {}: it is a {}, in whose place no folder can be put; {} "
        "the folder that it lies in, or choose another --out",
        folder.string(), link ? "symbolic link" : "mounted folder", link ? "link" : "mount"));
  }
}

// One preparation of a task in a folder at a time: who comes second waits and finds it there.
// Folder and lock go again where nothing was prepared.
class PreparationLock {
 public:
  PreparationLock(const fs::path& out, const std::string& name) {
    std::error_code ignored;
    const auto there = [&](const fs::path& at) {  // a link that leads nowhere is there, too
      return fs::exists(fs::symlink_status(at, ignored));
    };
    for (fs::path at = out; !at.empty() && !there(at); at = at.parent_path()) made_.push_back(at);
    if (const std::string trouble = make_folders(out); !trouble.empty()) {
      remove_empty();
      throw Error("cannot write " + (out / name).string() + ": " + trouble);
    }
    lock_.emplace(
        host::FolderLock::wait(out, "." + name + ".lock", "the data of " + name).removed_at_end());
  }
  ~PreparationLock() {
    lock_.reset();
    remove_empty();
  }
  PreparationLock(const PreparationLock&) = delete;
  PreparationLock& operator=(const PreparationLock&) = delete;

 private:
  void remove_empty() const {
    std::error_code not_empty;
    for (const fs::path& folder : made_) fs::remove(folder, not_empty);
  }

  std::vector<fs::path> made_;  // the innermost first
  std::optional<host::FolderLock> lock_;
};

}  // namespace

bool prepare_data(const std::string& name, PrepareOptions options) {
  const Task& chosen = task(name);
  const PreparationLock lock(options.out, name);
  const bool existed = fs::exists(options.out / name / kManifestFile);
  if (!existed) check_place(fs::absolute(options.out) / name);
  check_in_the_way(options.out, name);  // before the work, not after it
  std::optional<host::Progress> progress;
  std::string current;
  options.progress = [&](int64_t done, int64_t total, const std::string& what) {
    if (!progress || what != current) {
      if (progress) progress->finish();
      progress.emplace(what, total);
      current = what;
    }
    progress->update(done);
  };
  options.stop = &host::stop_requested();
  if (options.memory == 0) options.memory = host::free_memory();
  try {
    chosen.prepare(options);
  } catch (const UsageError&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw Error(fmt::format(
        "memory ran out in preparing {}; a smaller --train, --dev or --test take less", name));
  } catch (const Error& error) {
    if (host::stop_requested()) throw host::Interrupted(error.what());
    throw;
  }
  if (progress) progress->finish();
  return existed;
}

std::vector<TaskData> locate_data(const std::vector<std::string>& names, const Budget& budget,
                                  const DataSources& from) {
  check_sources(names, from);
  std::vector<TaskData> plan;
  std::string missing;
  for (const std::string& name : names) {
    if (std::optional<TaskData> data = find_data(name, budget, from)) {
      plan.push_back(*std::move(data));
    } else {
      missing += (missing.empty() ? "" : "; ") + remedy(task(name), from);
    }
  }
  if (!missing.empty()) throw UsageError("there are no data: " + missing);
  return plan;
}

std::vector<std::string> tasks_with_data(const std::vector<std::string>& names,
                                         const Budget& budget, const DataSources& from) {
  std::vector<std::string> found;
  for (const std::string& name : names) {
    if (find_data(name, budget, from)) {
      found.push_back(name);
    } else {
      host::say("left out, there are no data: " + remedy(task(name), from));
    }
  }
  return found;
}

std::set<std::string> make_data(const std::vector<TaskData>& plan, const Budget& budget) {
  std::set<std::string> made;
  for (const TaskData& data : plan) {
    if (!data.make) continue;
    host::say("data: " + data.task + settings_words(data.make->settings) +
              (data.make->synthetic ? " (synthetic stand-in)" : ""));
    try {
      if (!prepare_data(data.task, *data.make)) made.insert(data.task);
    } catch (const UsageError& error) {
      throw UsageError(budget_words(error.what(), data.task, budget));
    }
  }
  return made;
}

}  // namespace lra::suite
