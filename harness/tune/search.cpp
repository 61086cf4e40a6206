#include "harness/tune/search.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "attention_variants/base/file_errors.h"
#include "attention_variants/base/files.h"
#include "attention_variants/base/json_text.h"
#include "harness/host/folder_lock.h"
#include "harness/host/heartbeat.h"
#include "harness/host/runtime.h"
#include "harness/suite/cell.h"
#include "harness/suite/changed_files.h"
#include "harness/suite/run_suite.h"
#include "harness/suite/suite_folder.h"
#include "harness/training/run_folder.h"
#include "harness/training/train_setup.h"
#include "harness/tune/choose.h"
#include "harness/tune/tuned_protocol.h"
#include "lra/config/once.h"
#include "lra/data/task.h"
#include "results/records/file_names.h"

namespace lra::tune {
namespace {

namespace fs = std::filesystem;

// A protocol has one entry a variant, and one an attention from a file, with whatever options.
void check_attentions(const std::vector<AttentionSpec>& attentions) {
  std::map<std::string, std::string> entries;  // name -> the attention that has it
  for (const AttentionSpec& attention : attentions) {
    const std::string text = attention.text();
    const auto [it, fresh] = entries.emplace(entry_name(attention), text);
    if (fresh) continue;
    if (it->second == text) throw UsageError("--attentions names " + text + " twice");
    throw UsageError(
        fmt::format("--attentions: {} and {} have one entry of a protocol, which cannot hold what "
                    "is chosen for "
                    "both; give each an --out folder of its own",
                    it->second, text));
  }
}

suite::SuiteCell cell_of(const TuneRequest& request, const Protocol& protocol,
                         const AttentionSpec& attention, const Point& point, uint64_t seed,
                         const fs::path& kept) {
  std::vector<std::string> sets = request.sets;
  sets.insert(sets.end(), point.begin(), point.end());
  sets.push_back(fmt::format("{}=false", kTested));
  const std::string at = suite::folder_name(fmt::format("{}", fmt::join(point, ",")));
  return {.config = make_config(protocol, request.task, attention, sets, seed, request.dtype,
                                kept.string()),
          .sets = sets,
          .run = request.out / kRunsFolder / request.task / suite::folder_name(attention.text()) /
                 at / fmt::format("seed{}", seed),
          .point = point_text(point)};
}

// By their numbers in the request.
const suite::SuiteCell& cell_at(const Search& search, size_t attention, size_t point,
                                size_t seed = 0) {
  const TuneRequest& request = search.request;
  const size_t first = (attention * request.points.size() + point) * request.seeds.size();
  return search.suite.cells[first + seed];
}

void check_costs(const Search& search) {
  for (size_t point = 0; point < search.request.points.size(); ++point) {
    const suite::SuiteCell& first = cell_at(search, 0, point);
    for (size_t attention = 1; attention < search.request.attentions.size(); ++attention) {
      const suite::SuiteCell& other = cell_at(search, attention, point);
      const auto refuse = [&](int64_t here, int64_t there, const char* what, const char* key) {
        if (here == there) return;
        throw UsageError(fmt::format(
            "{} would train {} {} and {} {}: a search costs every attention the same; give --set "
            "{}=N",
            first.config.attention.text(), here, what, other.config.attention.text(), there, key));
      };
      refuse(suite::steps_of(first), suite::steps_of(other), "steps", "training.steps");
      refuse(first.config.settings.training.batch, other.config.settings.training.batch,
             "samples a step", "training.batch");
    }
  }
}

suite::Suite suite_of(const TuneRequest& request, std::vector<suite::ChangedFile> changed) {
  std::error_code none;
  if (fs::equivalent(request.protocol, request.out / kTunedProtocol, none)) {
    throw UsageError(fmt::format(
        "--protocol {}: the search would write its own protocol there; choose another --out",
        request.protocol));
  }
  const Protocol protocol = load_protocol(request.protocol);
  suite::Suite suite{.request = {.tasks = {request.task},
                                 .attentions = request.attentions,
                                 .seeds = request.seeds,
                                 .protocol = request.protocol,
                                 .sets = request.sets,
                                 .data = {.given = request.data},
                                 .out = request.out,
                                 .device = request.device,
                                 .dtype = request.dtype,
                                 .threads = request.threads,
                                 .changed = std::move(changed)}};
  for (const AttentionSpec& attention : request.attentions) {
    const fs::path kept = suite.request.kept(attention);
    for (const Point& point : request.points) {
      for (const uint64_t seed : request.seeds)
        suite.cells.push_back(cell_of(request, protocol, attention, point, seed, kept));
    }
  }
  suite::check_folders(suite, "try their values in --out folders of their own");
  return suite;
}

// What a search must agree with to go on with another: all but its points.
json comparable(const TuneFile& file) {
  std::vector<std::string> sets = file.sets;
  std::ranges::sort(sets);
  json recipes = json::object();
  for (const auto& [attention, config] : file.recipes.items())
    recipes[attention] = config_identity(config);
  return {{"task", file.task},        {"attentions", file.attentions},
          {"seeds", file.seeds},      {"sets", sets},
          {"dtype", file.dtype},      {"device", file.device},
          {"data", file.fingerprint}, {"recipes", recipes}};
}

// What keeps a search from going on as another: the options that differ, "--seeds 0 there, 0,1
// here"; the recipes, which come of them, where none does.
std::string search_differences(const TuneFile& held, const TuneFile& asked) {
  const json there = comparable(held), here = comparable(asked);
  const std::string all = there_and_here(there, here);
  if (all.empty()) return "";
  const std::vector<NamedKey> keys = {{"task", "--task"},
                                      {"attentions", "--attentions"},
                                      {"seeds", "--seeds"},
                                      {"sets", "--set"},
                                      {"dtype", "--dtype"},
                                      {"device", "--device"},
                                      {"data", "the data's fingerprint"},
                                      {"protocol", "--protocol"}};
  json options_there = there, options_here = here;
  options_there["protocol"] = held.protocol;
  options_here["protocol"] = asked.protocol;
  const std::string options = there_and_here(options_there, options_here, keys);
  return options.empty() ? all : options;
}

// Since the search in OUT began.
std::vector<suite::ChangedFile> changed_since(const TuneFile& held, const fs::path& out) {
  std::vector<suite::PlannedRun> runs;
  for (const TunedCell& cell : held.cells)
    runs.push_back(
        {.config = held.recipes.value(cell.attention, json::object()), .run = out / cell.run});
  return suite::changed_files(runs, out);
}

// The points that a search holds go before those that are new.
void join_points(const TuneFile& held, std::vector<Point>& points) {
  std::vector<Point> joined = held.points;
  for (Point& point : points) {
    const auto same = [&point](const Point& other) { return same_point(point, other); };
    if (std::ranges::none_of(joined, same)) joined.push_back(std::move(point));
  }
  points = std::move(joined);
}

TunedCell read_cell(const Search& search, size_t attention, size_t point, size_t seed) {
  const TuneRequest& request = search.request;
  const suite::SuiteCell& cell = cell_at(search, attention, point, seed);
  TunedCell one{.attention = request.attentions[attention].text(),
                .point = request.points[point],
                .seed = request.seeds[seed],
                .run = cell.run.lexically_relative(request.out).string()};
  const std::optional<Result> result = suite::final_result(cell.run);
  if (!result) return one;
  one.status = result->status;
  one.reason = result->reason;
  one.best_step = result->best_step;
  one.left_majority_at = result->left_majority_at;
  one.learning_unknown = result->dev && !result->data.dev_majority;
  one.seconds = result->seconds();
  if (!one.seconds) one.seconds = suite::attempt_seconds(cell.run);
  if (result->dev) {
    one.dev = result->dev->accuracy;
    one.ci95 = result->dev->ci95;
    one.examples = result->dev->independent();
  }
  return one;
}

// Cells whose tune.json is lost may be of data that were there before.
void check_trained_on(const Search& search) {
  const std::string had = suite::recorded_fingerprint(search.suite, search.request.task,
                                                      search.request.data),
                    now = search.data.fingerprint();
  if (had.empty() || had == now) return;
  throw Error(fmt::format(
      "the runs in {} are of other data than {} holds now (fingerprint {} there, {} here): give "
      "that data, or choose another --out folder",
      search.request.out.string(), search.request.data.string(), had, now));
}

// Nor of another configuration, or begun on other data, as a killed search leaves them.
void check_configuration(const suite::SuiteCell& cell, const fs::path& data) {
  suite::checked_status(cell);
  if (!has_begun(cell.run) || fs::exists(cell.run / kResultFile) ||
      !fs::exists(cell.run / kConfigFile))
    return;
  if (!cell.config.settings.pretraining.empty()) return;  // whose weights are of its identity, too
  const std::string fingerprint =
      open_run_data(data, cell.config, /*check_hashes=*/false).manifest().fingerprint();
  const RunFolder there(cell.run, run_identity(cell.config, fingerprint), Resume::yes,
                        Access::read);
}

void add_cost(TuneFile& file) {
  for (const std::string& attention : file.attentions) {
    AttentionHours cost{.attention = attention};
    for (const TunedCell& cell : file.cells) {
      if (cell.attention == attention) cost.hours += cell.seconds.value_or(0) / 3600;
    }
    file.hours += cost.hours;
    file.cost.push_back(cost);
  }
}

}  // namespace

Search plan_search(TuneRequest request) {
  check_attentions(request.attentions);
  check_once("--seeds", request.seeds);
  const fs::path path = request.out / kTuneFile;
  if (fs::exists(request.out / kSuiteFile) && !fs::exists(path)) {
    throw Error(
        fmt::format("{} holds a suite, whose runs are not a search's; choose another "
                    "--out folder",
                    request.out.string()));
  }
  std::optional<TuneFile> held;
  if (fs::exists(path)) {
    held = read_tune_file(path);
    join_points(*held, request.points);
    suite::check_threads(request.out, held->threads, request.threads_given ? request.threads : 0);
    request.threads = held->threads;
  }
  Search search{.request = std::move(request), .data = {}, .suite = {}};
  search.suite = suite_of(search.request, held ? changed_since(*held, search.request.out)
                                               : std::vector<suite::ChangedFile>());
  check_costs(search);
  suite::check_cells_can_read(search.suite,
                              {.task = search.request.task, .directory = search.request.data});
  search.data = open_data(search.request.data, search.request.task, /*check_hashes=*/false,
                          std::nullopt, OpenedSplits::all_but_test)
                    .manifest();
  if (!held) {
    check_trained_on(search);
    for (const suite::SuiteCell& cell : search.suite.cells)
      check_configuration(cell, search.request.data);
    return search;
  }
  const TuneFile asked = file_of(search);
  const std::string different = search_differences(*held, asked);
  if (different.empty()) return search;
  if (held->attentions == asked.attentions)
    suite::check_kept(search.suite.request.changed, search.request.out);
  throw Error(
      fmt::format("{} holds another search ({}); only --grid may differ: use the same options, or "
                  "another --out folder",
                  search.request.out.string(), different));
}

TuneFile file_of(const Search& search) {
  const TuneRequest& request = search.request;
  TuneFile file{.task = request.task,
                .points = request.points,
                .seeds = request.seeds,
                .protocol = request.protocol,
                .sets = request.sets,
                .data = fs::absolute(request.data).lexically_normal().string(),
                .dtype = request.dtype,
                .device = request.device,
                .threads = request.threads,
                .fingerprint = search.data.fingerprint(),
                .data_source = search.data.source,
                .synthetic = search.data.synthetic,
                .software = host::software_json()};
  for (size_t attention = 0; attention < request.attentions.size(); ++attention) {
    file.attentions.push_back(request.attentions[attention].text());
    file.recipes[file.attentions.back()] =
        config_identity(cell_at(search, attention, 0).config.to_json());
    for (size_t point = 0; point < request.points.size(); ++point) {
      for (size_t seed = 0; seed < request.seeds.size(); ++seed)
        file.cells.push_back(read_cell(search, attention, point, seed));
    }
  }
  file.chosen = choose(scores_of(file));
  add_cost(file);
  return file;
}

TuneFile record_search(Search& search) {
  const fs::path& out = search.request.out;
  const std::string trouble = make_folders(out);
  if (!trouble.empty()) throw Error("cannot create " + out.string() + ": " + trouble);
  const host::FolderLock lock =
      host::FolderLock::wait(out, host::FolderLock::kName, "the search in " + out.string());
  // Another process may have added points since.
  search = plan_search(search.request);
  TuneFile file = file_of(search);
  suite::keep_files(search.suite);
  write_json(out / kTuneFile, make_tune_file(file), Links::replace);
  return file;
}

void run_search(const Search& search, const suite::RunnerOptions& options) {
  const host::RunnerHeartbeat mark(search.request.out);
  suite::run_cells(search.suite, options, {{search.request.task, search.request.data}});
}

}  // namespace lra::tune
