#include "harness/suite/suite_folder.h"

#include <fmt/format.h>

#include "attention_variants/base/file_errors.h"
#include "attention_variants/base/files.h"
#include "attention_variants/base/own_file.h"
#include "attention_variants/base/shell.h"
#include "attention_variants/base/text.h"
#include "harness/host/folder_lock.h"
#include "harness/host/heartbeat.h"
#include "harness/host/progress.h"
#include "harness/host/runtime.h"
#include "harness/suite/cell.h"
#include "harness/suite/changed_files.h"
#include "harness/suite/slurm.h"
#include "harness/suite/suite_data.h"
#include "harness/suite/suite_file.h"
#include "results/records/file_names.h"

namespace lra::suite {
namespace {

namespace fs = std::filesystem;

// A protocol's file is found from any folder.
std::string protocol_place(const std::string& given) {
  if (is_built_in(given)) return given;
  return fs::absolute(given).lexically_normal().string();
}

// Of a folder or file, "" for none: from any folder, however it was written.
std::string whole_path(const fs::path& given) {
  if (given.empty()) return "";
  const fs::path path = fs::absolute(given).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).string();
}

// What another must agree with to go on: cells as runs compare themselves, and none of what only
// says how they came about or where files lie that may have moved: the cells hold the protocol's
// values, and kFingerprints their data's.
json comparable(json suite) {
  if (!suite.is_object()) return suite;
  for (const char* key : {"tasks", "attentions", "folder", "seeds", "sets", "sources", "synthetic",
                          "threads", "runs", "cut", "data"}) {
    suite.erase(key);
  }
  if (suite.contains("budget") && suite["budget"].is_object()) {
    suite["budget"].erase("run");
    suite["budget"].erase("skip_missing");
    suite["budget"].erase("profile");
  }
  if (suite.contains("device") && suite["device"].is_string()) {
    const std::string device = suite["device"];
    suite["device"] = host::device_kind(device);
  }
  if (suite.contains("protocol") && suite["protocol"].is_string() &&
      !is_built_in(suite["protocol"])) {
    suite["protocol"] = "(a file)";
  }
  if (suite.contains("cells") && suite["cells"].is_array()) {
    json cells = json::object();
    for (const json& cell : suite["cells"])
      cells[std::to_string(cells.size())] = config_identity(cell);
    suite["cells"] = std::move(cells);
  }
  return suite;
}

const std::vector<NamedKey> kOptions = {
    {"tasks", "--tasks"}, {"attentions", "--attentions"}, {"seeds", "--seeds"},
    {"sets", "--set"},    {"protocol", "--protocol"},     {"budget", "--budget"},
    {"dtype", "--dtype"}, {"device", "--device"},         {"max_hours", "--max-hours"}};

// By the names of kOptions.
json given_options(const json& file) {
  json options = comparable(file);
  for (const char* key : {"tasks", "attentions", "seeds", "sets", "protocol"})
    options[key] = file.value(key, json());
  options["budget"] = file.value(json::json_pointer("/budget/name"), json());
  return options;
}

// What keeps a suite from going on as another: the options that differ, "--seeds 0 there, 0,1
// here", else what does; the cells, which come of all, where nothing else does.
std::string suite_differences(const json& held, const json& asked) {
  json there = comparable(held), here = comparable(asked);
  const json cells_there = {{"cells", there["cells"]}}, cells_here = {{"cells", here["cells"]}};
  there.erase("cells");
  here.erase("cells");
  const std::string rest = there_and_here(there, here),
                    cells = there_and_here(cells_there, cells_here);
  if (rest.empty() && cells.empty()) return "";
  const std::string options = there_and_here(given_options(held), given_options(asked), kOptions);
  return !options.empty() ? options : rest.empty() ? cells : rest;
}

// What is done about one that is damaged; its cells stand.
constexpr const char* kPutBack =
    "; put back what it was, or remove it and give the suite's options again, which goes on with "
    "its runs";

SuiteFile suite_file_of(const json& file, const fs::path& out) {
  try {
    SuiteFile held = parse_suite_file(file);
    for (const auto& [task_name, source] : held.sources.items())
      text_under(held.sources, task_name, "sources");
    return held;
  } catch (const std::runtime_error& error) {
    throw not_of_this_version(out, error.what());
  }
}

SuiteRequest request_of(const SuiteFile& file, const fs::path& out) {
  SuiteRequest request;
  request.tasks = file.tasks;
  for (const std::string& text : file.attentions)
    request.attentions.push_back(parse_attention(text));
  request.folder = file.folder;
  request.seeds = file.seeds;
  request.protocol = file.protocol;
  request.budget.where = (out / kSuiteFile).string() + ": budget";
  read_fields(file.budget, request.budget, request.budget.where);
  request.sets = file.sets;
  request.data.given = file.data;
  for (const auto& [task_name, path] : file.sources.items())
    request.data.sources[task_name] = path.get<std::string>();
  request.data.synthetic = file.synthetic;
  request.out = out;
  request.device = file.device;
  request.dtype = file.dtype;
  request.threads = file.threads;
  request.max_hours = file.max_hours.value_or(0);
  return request;
}

json suite_json(const Suite& suite) {
  const SuiteRequest& request = suite.request;
  SuiteFile file{.protocol = protocol_place(request.protocol),
                 .budget = write_fields(request.budget),
                 .data = whole_path(request.data.given),
                 .dtype = request.dtype,
                 .device = request.device,
                 .threads = request.threads,
                 .tasks = request.tasks,
                 .folder = request.folder.empty() ? folder_of(request.attentions) : request.folder,
                 .seeds = request.seeds,
                 .sets = request.sets,
                 .synthetic = request.data.synthetic};
  if (request.max_hours > 0) file.max_hours = request.max_hours;
  if (suite.fraction < 1) file.fraction = suite.fraction;
  for (const AttentionSpec& attention : request.attentions)
    file.attentions.push_back(attention.text());
  for (const auto& [task_name, path] : request.data.sources)
    file.sources[task_name] = whole_path(path);
  for (const SuiteCell& cell : suite.cells) {
    file.runs.push_back(cell.run.lexically_relative(request.out).string());
    file.cells.push_back(cell.config.to_json());
  }
  return make_suite_file(file);
}

}  // namespace

json read_suite_json(const fs::path& out) {
  const fs::path path = out / kSuiteFile;
  if (!fs::exists(path)) {
    throw Error(out.string() + " holds no suite (no " + kSuiteFile + "); lra suite --out " +
                shell_word(out.string()) + " makes one there");
  }
  return read_json_object(path, "the file of a suite", kPutBack);
}

Error not_of_this_version(const fs::path& out, const std::string& why) {
  return Error(fmt::format("{} is not the file of a suite of this version ({}){}",
                           (out / kSuiteFile).string(), why, kPutBack));
}

Suite load_suite(const fs::path& out) {
  const fs::path path = out / kSuiteFile;
  const json file = read_suite_json(out);
  if (file.contains("schema") && file["schema"] != kSuiteSchema)
    throw Error(fmt::format("{} should hold \"schema\": \"{}\"", path.string(), kSuiteSchema));
  const SuiteFile held = suite_file_of(file, out);
  SuiteRequest request = read_own([&] { return request_of(held, out); });
  check_folder(request.attentions, held.folder, out);
  request.changed = changed_files(out);
  const Suite suite =
      read_own([&] { return plan_suite(request, held.fraction.value_or(1)); }, path.string());
  const std::string different = differences_text(comparable(file), comparable(suite_json(suite)));
  if (!different.empty()) {
    check_kept(request.changed, out);
    throw Error(fmt::format(
        "{} was made with another version of the program or the protocol ({}); go on with that, "
        "or choose another --out folder",
        path.string(), different));
  }
  return suite;
}

void check_resumed(const fs::path& out, Resume resume) {
  if (resume == Resume::yes) return;
  throw Error(out.string() +
              " holds a suite already; go on with --resume, or choose another --out folder");
}

Suite join_suite(const Suite& planned) {
  const fs::path& out = planned.request.out;
  const json file = read_suite_json(out);
  const SuiteFile held = suite_file_of(file, out);
  check_folder(planned.request.attentions, held.folder, out);
  Suite suite = plan_suite(planned.request, held.fraction.value_or(1));
  suite.request.folder = held.folder;
  const std::string different = suite_differences(file, suite_json(suite));
  if (!different.empty()) {
    if (!different.starts_with("--")) check_kept(planned.request.changed, out);
    throw Error(
        fmt::format("{} holds another suite ({}); use the same options or another --out folder",
                    out.string(), different));
  }
  suite.request.threads = held.threads;
  if (suite.request.data.given.empty()) suite.request.data.given = held.data;
  if (suite.request.data.sources.empty()) {
    for (const auto& [task_name, source] : held.sources.items())
      suite.request.data.sources[task_name] = source.get<std::string>();
    suite.request.data.synthetic |= held.synthetic;
  }
  return suite;
}

OpenedSuite open_suite(const Suite& planned, Resume resume, int64_t threads_given,
                       const std::function<double(const Suite&)>& hours) {
  const fs::path& out = planned.request.out;
  const bool is_there = fs::exists(out);
  const std::string trouble = make_folders(out);
  if (!trouble.empty()) throw Error("cannot create " + out.string() + ": " + trouble);
  const host::FolderLock lock =
      host::FolderLock::wait(out, host::FolderLock::kName, "the plan in " + out.string());
  const fs::path path = out / kSuiteFile;
  if (!fs::exists(path)) {
    if (fs::exists(out / kTuneFile)) {
      throw Error(
          fmt::format("{} holds a search of lra tune, whose runs are not a suite's; choose "
                      "another --out folder",
                      out.string()));
    }
    Suite suite = planned;
    const double limit = planned.request.max_hours;
    if (limit > 0) {
      const double whole = hours(planned);
      if (whole > limit) suite = plan_suite(planned.request, limit / whole);
      host::say(
          whole > limit
              ? fmt::format("about {:.3g} hours in full: cut to {:.3g} % of every cell's steps",
                            whole, 100 * suite.fraction)
              : fmt::format("about {:.3g} hours in full: nothing to cut", whole));
    }
    // Cells of a suite whose file is lost.
    for (const SuiteCell& cell : suite.cells) checked_status(cell);
    keep_files(suite);
    write_json(path, suite_json(suite), Links::replace);
    return {.suite = std::move(suite), .is_new = true, .made_folder = !is_there};
  }
  check_resumed(out, resume);
  Suite suite = join_suite(planned);
  check_threads(out, suite.request.threads, threads_given);
  check_given_fingerprints(suite);
  keep_files(suite);  // those of one that was made before there was a place for them
  // What is new, such as a source, stands in the file for those who join.
  if (const json merged = suite_json(suite); merged != read_json(path))
    write_json(path, merged, Links::replace);
  return {.suite = std::move(suite)};
}

void withdraw_suite(const OpenedSuite& opened) {
  const fs::path& out = opened.suite.request.out;
  std::error_code not_empty;
  {
    host::FolderLock lock =
        host::FolderLock::wait(out, host::FolderLock::kName, "the plan in " + out.string());
    if (fs::exists(out / kRunsFolder) || !host::runners(out).empty()) return;
    remove_scripts(out);
    remove_kept_files(opened.suite);
    for (const char* file : {kSuiteFile, kFingerprints}) fs::remove(out / file);
    for (const fs::path& folder : {out / kRunnersFolder, suite_data_folder(out)})
      fs::remove(folder, not_empty);
    if (auto data = host::FolderLock::try_lock(out, kDataLock)) std::move(*data).removed_at_end();
    std::move(lock).removed_at_end();
  }
  if (opened.made_folder) fs::remove(out, not_empty);
}

void check_threads(const fs::path& out, int64_t has, int64_t given) {
  if (given == 0 || given == has) return;
  throw UsageError(
      fmt::format("the cells of {} have {} each, as their results depend on it, and not {}: "
                  "--threads shared out over the jobs should make {}, or be left out",
                  out.string(), count_text(has, "thread"), given, has));
}

}  // namespace lra::suite
