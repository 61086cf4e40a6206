#include "harness/suite.h"

#include <fmt/format.h>

#include <cctype>
#include <chrono>
#include <cstring>
#include <map>
#include <thread>

#include "harness/child.h"
#include "harness/progress.h"
#include "harness/run_files.h"
#include "harness/runtime.h"
#include "harness/signals.h"
#include "lra/files.h"
#include "results/report.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSuiteFile = "suite.json";

struct Cell {
  Config config;
  std::vector<std::string> sets;
  fs::path run;
};

// A folder name for an attention: letters, digits and what is safe beside them.
std::string folder_name(const std::string& text) {
  std::string name;
  for (const char c : text)
    name += std::isalnum(static_cast<unsigned char>(c)) || std::strchr("-_.=,[]", c) != nullptr
                ? c
                : '_';
  return name;
}

std::vector<Cell> plan(const SuiteRequest& request) {
  const Protocol protocol = load_protocol(request.protocol);
  std::vector<Cell> cells;
  for (const std::string& task_name : request.tasks) {
    std::vector<std::string> sets;
    const TaskBudget budget = request.budget.task(task_name);
    for (const auto& [key, value] : budget.set.items())
      sets.push_back(fmt::format("{}={}", key, value.dump()));
    sets.insert(sets.end(), request.sets.begin(), request.sets.end());
    for (const AttentionSpec& attention : request.attentions) {
      for (const uint64_t seed : request.seeds) {
        cells.push_back(
            {.config = make_config(protocol, task_name, attention, sets, seed, request.dtype),
             .sets = sets,
             .run = request.out / "runs" / task_name / folder_name(attention.text()) /
                    fmt::format("seed{}", seed)});
      }
    }
  }
  return cells;
}

json suite_json(const SuiteRequest& request, const std::vector<Cell>& cells) {
  json value = {
      {"schema", "lra.suite/1"},
      {"protocol", request.protocol},
      {"budget", write_fields(request.budget)},
      {"data", request.data.given.empty() ? "" : fs::absolute(request.data.given).string()},
      {"dtype", request.dtype},
      {"device", request.device},
      {"cells", json::array()}};
  for (const Cell& cell : cells) value["cells"].push_back(cell.config.to_json());
  return value;
}

// A suite's file as far as another must agree with it to go on: cells as runs compare themselves,
// and without the budget's list of tasks, which says what `cells` does.
json comparable(json suite) {
  if (suite.contains("budget") && suite["budget"].is_object()) suite["budget"].erase("run");
  if (suite.contains("cells")) {
    for (json& cell : suite["cells"]) cell = config_identity(cell);
  }
  return suite;
}

// A folder is continued only when asked, and only by the same suite.
void check_folder(const SuiteRequest& request, const json& suite) {
  const fs::path path = request.out / kSuiteFile;
  if (!fs::exists(path)) return;
  const std::string out = request.out.string();
  if (request.resume == Resume::no) {
    throw Error(out +
                " holds a suite already; go on with --resume, or choose another --out folder");
  }
  const std::string different = differences_text(comparable(read_json(path)), comparable(suite));
  if (!different.empty()) {
    throw Error(
        fmt::format("{} holds another suite ({}); use the same options or another --out folder",
                    out, different));
  }
}

// The status a run folder ended with, "" where it has not.
std::string status_of(const fs::path& run) {
  const fs::path path = run / kResultFile;
  return fs::exists(path) ? read_result(path).status : "";
}

// A child that left no result (killed, or refused before its first step): the suite says so in its
// place.
void record_failure(const SuiteRequest& request, const Cell& cell, const fs::path& data,
                    const std::string& reason) {
  const PreparedData prepared = open_data(data, cell.config.task, /*check_hashes=*/false);
  TrainRequest train{
      .config = cell.config, .run = cell.run, .data = data, .device = parse_device(request.device)};
  Result result = result_of(train, prepared.manifest(), prepared.split("test"));
  result.status = "crash";
  result.reason = reason;
  result.config = cell.config.to_json();
  fs::create_directories(cell.run);
  write_json(cell.run / kResultFile, make_result(result));
}

// After a kill of the runner its child may still be writing its last checkpoint.
void wait_until_free(const fs::path& run) {
  fs::create_directories(run);
  for (int attempt = 0;; ++attempt) {
    try {
      const FolderLock lock(run);
      return;
    } catch (const Error&) {
      if (attempt == 100 || stop_requested()) throw;
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
  }
}

// This program again, on the same device and as quiet as we are.
ChildStatus run_part(const SuiteRequest& request, std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"--device", request.device, "--dtype", request.dtype,
                                     "--threads", std::to_string(request.threads)});
  if (is_quiet()) arguments.push_back("--quiet");
  return run_child(arguments);
}

std::string train_cell(const SuiteRequest& request, const Cell& cell, const fs::path& data) {
  std::vector<std::string> arguments = {"train",
                                        "--task",
                                        cell.config.task,
                                        "--attention",
                                        cell.config.attention.text(),
                                        "--protocol",
                                        request.protocol,
                                        "--seed",
                                        std::to_string(cell.config.seed),
                                        "--data",
                                        data.string(),
                                        "--run",
                                        cell.run.string(),
                                        "--resume"};
  for (const std::string& set : cell.sets) arguments.insert(arguments.end(), {"--set", set});
  wait_until_free(cell.run);
  const ChildStatus ended = run_part(request, arguments);
  std::string status = status_of(cell.run);
  if (status.empty()) {
    record_failure(request, cell, data,
                   ended.signal != 0 ? fmt::format("ended by signal {}", ended.signal)
                                     : fmt::format("exit status {}", ended.exit));
    status = "crash";
  }
  return status;
}

// False where it did not finish.
bool profile(const SuiteRequest& request) {
  const ProfileBudget& budget = request.budget.profile;
  std::string attentions;
  for (const AttentionSpec& attention : request.attentions) {
    attentions += fmt::format("{}{}", attentions.empty() ? "" : ",", attention.text());
  }
  const ChildStatus ended =
      run_part(request, {"profile", "--preset", budget.preset, "--scope", budget.scope, "--mode",
                         budget.mode, "--lengths", budget.lengths, "--attentions", attentions,
                         "--seconds", fmt::format("{}", budget.seconds), "--out",
                         (request.out / "profile.jsonl").string()});
  const bool finished = ended.exit == 0 && ended.signal == 0;
  if (!finished) say("lra profile did not finish; the table holds the cells it measured");
  return finished;
}

}  // namespace

int64_t run_suite(const SuiteRequest& request) {
  parse_device(request.device);
  const std::vector<Cell> cells = plan(request);
  DataSources sources = request.data;
  sources.folder = request.out / "data";
  const std::vector<TaskData> data = plan_data(request.tasks, request.budget, sources);
  const json suite = suite_json(request, cells);
  std::error_code error;
  fs::create_directories(request.out, error);
  if (error) throw Error("cannot create " + request.out.string() + ": " + error.message());
  const FolderLock lock(request.out);
  check_folder(request, suite);
  write_json(request.out / kSuiteFile, suite);

  make_data(data);
  std::map<std::string, fs::path> folders;  // by task
  for (const TaskData& of_task : data) {
    open_data(of_task.directory, of_task.task, /*check_hashes=*/false);
    folders[of_task.task] = of_task.directory;
  }

  int64_t failed = 0;
  for (size_t i = 0; i < cells.size(); ++i) {
    const Cell& cell = cells[i];
    const std::string label =
        fmt::format("[{}/{}] {} {} seed {}", i + 1, cells.size(), cell.config.task,
                    cell.config.attention.text(), cell.config.seed);
    std::string status = status_of(cell.run);
    // Only a crash is tried again: the others would end the same way.
    if (status.empty() || status == "crash") {
      say(label);
      status = train_cell(request, cell, folders.at(cell.config.task));
    }
    say(label + ": " + status);
    failed += status == "ok" ? 0 : 1;
  }
  say("profile");
  failed += profile(request) ? 0 : 1;

  const Records records = find_records({request.out / "runs", request.out / "profile.jsonl"});
  fs::create_directories(request.out / "report");
  for (const auto& [name, content] : make_report(records))
    write_file(request.out / "report" / name, content);
  fmt::print("{}", summary_text(records));
  say("report: " + (request.out / "report").string());
  return failed;
}

}  // namespace lra
