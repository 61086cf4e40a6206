#include "harness/suite/finish.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <set>
#include <vector>

#include "attention_variants/base/files.h"
#include "attention_variants/base/shell.h"
#include "attention_variants/base/text.h"
#include "attention_variants/python_host.h"
#include "attention_variants/registry.h"
#include "harness/host/folder_lock.h"
#include "harness/host/progress.h"
#include "harness/host/signals.h"
#include "harness/profile/passes.h"
#include "harness/profile/profile_run.h"
#include "harness/profile/store.h"
#include "harness/report/write_report.h"
#include "harness/suite/changed_files.h"
#include "harness/suite/queue.h"
#include "results/records/file_names.h"

namespace lra::suite {
namespace {

namespace fs = std::filesystem;

bool is_readable(const fs::path& profile) {
  try {
    profile::read_profile(profile);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

// What the cells trained, by how their attentions are named: of those that are made from files the
// effective options.
using TrainedFiles = std::map<std::string, json>;

TrainedFiles trained_files(const Suite& suite) {
  TrainedFiles trained;
  for (const SuiteCell& cell : suite.cells) {
    if (cell.config.attention_options.contains("sha256"))
      trained.emplace(cell.config.attention.text(), cell.config.attention_options);
  }
  return trained;
}

// Whether a record of a trained attention is of a file that its cells did not train.
bool is_of_other_file(const Profile& record, const TrainedFiles& trained) {
  const auto it = trained.find(record.attention.label);
  const json& options = record.attention.options;
  if (it == trained.end() || !options.contains("sha256")) return false;
  return std::ranges::any_of(std::array{"sha256", kImportsHash}, [&](const char* hash) {
    return options.value(hash, json()) != it->second.value(hash, json());
  });
}

bool has_other_files(const Suite& suite) {
  const TrainedFiles trained = trained_files(suite);
  const fs::path file = suite.request.out / kProfileFile;
  if (trained.empty() || !is_readable(file)) return false;
  return std::ranges::any_of(profile::read_profile(file), [&](const Profile& record) {
    return is_of_other_file(record, trained);
  });
}

// By the names that they were trained under; one whose file is no more what the cells trained, by
// what the folder keeps of it. Two that differ by what the protocol gives one of them are one
// without a protocol.
std::vector<profile::NamedAttention> measured_attentions(const Suite& suite) {
  const SuiteRequest& request = suite.request;
  const bool by_itself = request.budget.profile.scope != ProfileScope::model;
  std::set<std::string> meant;
  std::vector<profile::NamedAttention> measured;
  for (const AttentionSpec& attention : request.attentions) {
    profile::NamedAttention one{.attention = attention, .kept_file = ""};
    json options = attention.options;
    if (const auto changed = changed_now(suite, attention)) {
      check_kept({*changed}, request.out);
      host::say(changed->text());
      one.kept_file = changed->kept.string();
      options["file"] = one.kept_file;
    }
    const AttentionEntry& entry = attention_entry(attention.name);
    if (!by_itself ||
        meant.insert(attention_key(attention.name, entry.effective_options(options))).second)
      measured.push_back(std::move(one));
  }
  return measured;
}

// A profile of this file holds what was trained, or nothing of it.
void drop_other_files(const profile::ProfilePlan& plan, const TrainedFiles& trained) {
  const auto is_other = [&](const Profile& record) { return is_of_other_file(record, trained); };
  const std::vector<Profile> planned = profile::planned_records(plan);
  if (const auto it = std::ranges::find_if(planned, is_other); it != planned.end())
    throw Error(it->attention.label + ": its file has changed since it was trained");
  if (trained.empty() || !fs::exists(plan.out)) return;
  const size_t dropped = profile::remove_records(plan.out, is_other);
  if (dropped == 0) return;
  host::say(fmt::format("{} of another file than was trained {} measured anew",
                        count_text(dropped, "cell"), dropped == 1 ? "is" : "are"));
}

std::string unmeasured(const profile::ProfilePlan& plan, const std::vector<Profile>& records) {
  return profile::unmeasured_text(profile::profiles_of(plan, records));
}

// A profile that was begun goes on with its threads: cells of other numbers stand in other tables.
int64_t profile_threads(const fs::path& profile, const RunnerOptions& options) {
  if (options.threads_given || !fs::exists(profile)) return options.threads;
  std::map<int64_t, int64_t> cells;  // by threads
  for (const Profile& cell : profile::read_profile(profile))
    if (cell.threads) ++cells[*cell.threads];
  if (cells.empty()) return options.threads;
  const int64_t had =
      std::ranges::max_element(cells, {}, [](const auto& of) { return of.second; })->first;
  if (had == options.threads) return had;
  const std::string threads = count_text(had, "thread");
  if (had < options.threads) {
    host::say(
        fmt::format("the profile goes on with {}, as its cells had; --threads {} measures it "
                    "with all that there are",
                    threads, options.threads));
    return had;
  }
  host::say(
      fmt::format("the cells of the profile had {}, and there are {} here: what is still to "
                  "be measured stands in another table",
                  threads, options.threads));
  return options.threads;
}

void measure_profile(const Suite& suite, const RunnerOptions& options) {
  const ProfileBudget& budget = suite.request.budget.profile;
  profile::ProfilePlan plan =
      profile::plan_profile({.preset = budget.preset,
                             .dtype = suite.request.dtype,
                             .scope = budget.scope,
                             .mode = budget.mode,
                             .lengths = budget.length_list("budget " + suite.request.budget.name),
                             .named = measured_attentions(suite)},
                            {.out = suite.request.out / kProfileFile,
                             .device = options.devices.front(),
                             .threads = profile_threads(suite.request.out / kProfileFile, options),
                             .seconds = budget.seconds});
  drop_other_files(plan, trained_files(suite));
  // What an earlier call did not get measured is measured anew.
  if (fs::exists(plan.out)) plan.again = !unmeasured(plan, profile::read_profile(plan.out)).empty();
  const std::vector<Profile> records = profile::run_profile(plan);
  host::say(fmt::format("{} cells in {}", records.size(), plan.out.string()));
  if (const std::string text = unmeasured(plan, records); !text.empty()) throw Error(text);
}

// Whether the mark of a profile that was measured says so of this one: it may be older, or be what
// a full disk left of it.
bool is_mark_of(const fs::path& done, const json& asked, const fs::path& profile) {
  json mark;
  try {
    mark = read_json(done);
  } catch (const Error&) {
    return false;
  }
  if (!mark.is_object()) return false;
  const json digest = sha256_file(profile);
  return mark.value("profile", asked) == asked && mark.value("sha256", digest) == digest;
}

}  // namespace

bool profile_suite(const Suite& suite, const RunnerOptions& options) {
  const fs::path& out = suite.request.out;
  const fs::path done = out / "profile.done", failed = out / "profile.failed";
  const auto failed_before = stamp_of(failed);
  const host::FolderLock lock = host::FolderLock::wait(out, "profile.lock", "the profile");
  // What a budget that was edited since asks for is measured beside what is there.
  const json asked = write_fields(suite.request.budget.profile);
  if (fs::exists(done) && fs::exists(out / kProfileFile) &&
      is_mark_of(done, asked, out / kProfileFile)) {
    if (!has_other_files(suite)) return true;
    fs::remove(done);
  }
  if (stamp_of(failed) != failed_before && fs::exists(failed)) {
    host::say("another runner's profile did not finish; the next call measures what it lacks");
    return false;
  }
  host::say("profile");
  try {
    measure_profile(suite, options);
  } catch (const host::Interrupted&) {
    throw host::Interrupted("stopped; the same command with --resume goes on");
  } catch (const std::exception& error) {
    host::say_error(first_line(error));
    host::say(is_readable(out / kProfileFile)
                  ? "the profile did not finish; the table holds the cells it measured, and the "
                    "same command with --resume measures the others"
                  : fmt::format("remove {}, and the same command with --resume measures it anew",
                                (out / kProfileFile).string()));
    try {
      write_json(failed, {{"host", host::host_name()}, {"at", host::utc_now()}}, Links::replace);
    } catch (const std::exception&) {  // a full disk may be why it failed
    }
    return false;
  }
  json how = {{"host", host::host_name()}, {"at", host::utc_now()}, {"profile", asked}};
  if (fs::exists(out / kProfileFile)) how["sha256"] = sha256_file(out / kProfileFile);
  write_json(done, how, Links::replace);
  fs::remove(failed);
  return true;
}

void report_suite(const Suite& suite) {
  const fs::path &out = suite.request.out, folder = out / "report";
  const host::FolderLock lock = host::FolderLock::wait(out, "report.lock", "the report");
  std::vector<fs::path> paths = {out / kRunsFolder};
  if (fs::exists(out / kProfileFile)) paths.push_back(out / kProfileFile);
  try {
    write_report(find_records(paths), folder);
  } catch (const host::Interrupted&) {
    throw host::Interrupted("stopped; the same command with --resume goes on");
  } catch (const std::exception& error) {
    std::string made_by = "lra report";
    for (const fs::path& path : paths) made_by += " " + shell_word(path.string());
    throw Error(fmt::format("the report was not made ({}); {} --out {} makes it", first_line(error),
                            made_by, shell_word(folder.string())));
  }
}

std::vector<std::string> next_commands(const Suite& suite, const fs::path& program) {
  if (suite.request.budget.name != "smoke") return {};
  const std::string lra = shell_word(program.string());
  const auto& attentions = suite.request.attentions;
  std::vector<std::string> lines;
  if (attentions.size() > 1) {  // of the first task and seed
    const size_t second = suite.request.seeds.size();
    lines.push_back(fmt::format("{} compare {} {}  # whether the two differ", lra,
                                shell_word(suite.cells[0].run.parent_path().string()),
                                shell_word(suite.cells[second].run.parent_path().string())));
  }
  const fs::path example = program.parent_path() / "tests/examples/my_attention.cpp";
  const bool own = std::ranges::any_of(attentions, [](const AttentionSpec& one) {
    return !attention_entry(one.name).source_sha256.empty();
  });
  if (program.filename() == "run" && fs::exists(example) && !own) {
    lines.push_back(fmt::format(
        "LRA_EXTRA_VARIANTS={} {} suite --budget smoke --attentions {},softplus --out {}  "
        "# an attention of your own, built in, beside one of these",
        shell_word(example.lexically_normal().string()), lra, shell_word(attentions[0].text()),
        shell_word(suite.request.out.string() + "-own")));
  } else {
    lines.push_back(lra + " list attentions  # what else --attentions takes");
  }
  lines.push_back(lra +
                  " suite plan --budget quick --probe  # how long five attentions on more tasks "
                  "would take here, by some steps of each");
  return lines;
}

}  // namespace lra::suite
