// Walks folders and files for records; what cannot be used is listed with its reason and never
// stops the rest.
#include "results/store/store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "attention_variants/base/files.h"
#include "attention_variants/base/json_fault.h"
#include "attention_variants/base/text.h"
#include "results/records/file_names.h"
#include "results/records/json_line.h"
#include "results/store/suite_budget.h"

namespace lra {
namespace {

constexpr int kMaxDepth = 64;                   // of nested JSON: records need 6
constexpr std::uintmax_t kMaxBytes = 64 << 20;  // of one JSON text: a record is some KiB

[[noreturn]] void fail(const std::string& text) { throw std::runtime_error(text); }

// Parses with a bound on the depth: a hostile file of a million brackets must not exhaust the stack
// later. Of a key that stands twice one value would be lost without a word.
json parse_text(const std::string& text) {
  const JsonFault fault = json_fault(text, kMaxDepth);
  if (fault.kind == JsonFault::Kind::too_deep)
    fail(fmt::format("nested deeper than {} levels", kMaxDepth));
  if (fault.kind == JsonFault::Kind::key_twice)
    fail(fmt::format("key '{}' stands twice", printable(fault.key, 100)));
  try {
    return json::parse(text);
  } catch (const json::exception& error) {
    std::string reason =
        error.what();  // "[json.exception.parse_error.101] parse error at line 1, column 9: ..."
    if (const size_t end = reason.find("] "); end != std::string::npos)
      reason = reason.substr(end + 2);
    if (reason.size() > 160) reason = reason.substr(0, 157) + "...";
    fail("not valid JSON (cut short?): " + reason);
  }
}

enum class Known { kYes, kNoSchema, kOtherSchema };

// Adds one record to `records`; tells apart what is not a record at all.
Known take(const json& record, const std::string& path, Records& records) {
  if (!record.is_object()) fail("should hold a JSON object, not " + abbreviated(record));
  const auto it = record.find("schema");
  if (it == record.end()) return Known::kNoSchema;
  if (!it->is_string()) fail("field 'schema' should be a string, not " + abbreviated(*it));
  const auto schema = it->get<std::string>();
  const auto add = [&](auto& all, auto parsed) {
    parsed.path = path;
    all.push_back(std::move(parsed));
    return Known::kYes;
  };
  if (schema.starts_with("lra.result/")) return add(records.results, parse_result(record));
  if (schema.starts_with("lra.profile/")) return add(records.profiles, parse_profile(record));
  if (schema.starts_with("lra.fidelity/")) return add(records.fidelity, parse_fidelity(record));
  if (schema.starts_with("lra.where/")) return add(records.where, parse_where(record));
  return Known::kOtherSchema;
}

std::string other_schema(const json& record) {
  return fmt::format("schema {} is not one that this program reads ({}, {}, {}, {})",
                     abbreviated(record["schema"]), kResultSchema, kProfileSchema, kFidelitySchema,
                     kWhereSchema);
}

std::string whole_text(const std::filesystem::path& path) {
  try {
    return read_file(path);
  } catch (const Error& error) {
    const std::string said = error.what(), named = "cannot read " + path.string() + ": ";
    fail(said.starts_with(named) ? "cannot be read: " + said.substr(named.size()) : said);
  }
}

std::string text_of(const std::filesystem::path& path) {
  std::error_code code;
  if (std::filesystem::file_size(path, code) > kMaxBytes && !code) {
    fail(fmt::format("larger than {} MiB: no record", kMaxBytes >> 20));
  }
  std::string text = whole_text(path);
  if (text.empty()) fail("is empty");
  return text;
}

// The predictions must be those that the result counts: statistics of both would contradict each
// other.
std::shared_ptr<const Predictions> read_predictions(const std::filesystem::path& path,
                                                    const Result& result) {
  auto predictions = std::make_shared<Predictions>(parse_predictions(text_of(path)));
  if (!result.test) fail("holds predictions, but the run's result.json has no test accuracy");
  const int64_t correct = predictions->correct(), count = predictions->size();
  if (correct != result.test->correct || count != result.test->count) {
    fail(fmt::format("{} of {} predictions are right, but the run's result.json says {} of {}",
                     correct, count, result.test->correct, result.test->count));
  }
  return predictions;
}

// What stands beside a result.json. What cannot be used is left out and goes to `bad`.
void read_beside(Result& result, std::vector<BadFile>& bad) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(result.path).parent_path();
  const auto attempt = [&](const char* name, const auto& read) {
    const fs::path path = folder / name;
    std::error_code code;
    const bool there = fs::exists(path, code);
    // A run that ended before its first step leaves an empty log.
    if (!there || (fs::file_size(path, code) == 0 && name == std::string_view(kMetricsFile)))
      return;
    try {
      // A pipe would be waited for, and a device never ends.
      if (!fs::is_regular_file(path, code)) fail("is no regular file");
      read(path);
    } catch (const std::exception& error) {
      bad.push_back({path.string(), error.what()});
    }
  };
  attempt(kPredictionsFile,
          [&](const fs::path& path) { result.predictions = read_predictions(path, result); });
  attempt(kMetricsFile, [&](const fs::path& path) {
    std::string reason;
    result.log = std::make_shared<std::vector<LogLine>>(parse_run_log(text_of(path), reason));
    if (!reason.empty()) fail(reason);
  });
}

// `named`: the user gave this very file, so that passing it over in silence would mislead.
void read_one(const std::filesystem::path& path, const bool named, SuiteBudgets& budgets,
              Records& records) {
  const json record = parse_text(text_of(path));
  const size_t before = records.results.size();
  switch (take(record, path.string(), records)) {
    case Known::kYes:
      break;
    case Known::kNoSchema:
      fail("field 'schema' is missing");
    case Known::kOtherSchema:
      if (named) fail(other_schema(record));
  }
  if (records.results.size() > before && path.filename() == kResultFile) {
    records.results.back().budget = budgets.of(path.parent_path());
    read_beside(records.results.back(), records.bad);
  }
}

void read_lines(const std::filesystem::path& path, const bool named, Records& records) {
  std::istringstream stream(whole_text(path));
  std::string line, first_reason;
  size_t number = 0, bad = 0, taken = 0;
  while (std::getline(stream, line)) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    std::string reason;
    try {
      const json record = parse_text(line);
      const Known known = take(record, path.string(), records);
      taken += known == Known::kYes;
      if (known == Known::kNoSchema) reason = "field 'schema' is missing";
      if (known == Known::kOtherSchema && named) reason = other_schema(record);
    } catch (const std::exception& error) {
      reason = error.what();
    }
    if (reason.empty()) continue;
    if (bad++ == 0) first_reason = fmt::format("line {}: {}", number, reason);
  }
  if (bad > 1) first_reason += fmt::format(" (and {} more lines)", bad - 1);
  if (bad > 0) fail(first_reason);
  if (taken == 0 && named) fail("holds no record");
}

// Or will, once the one before it is done.
bool holds_run(const std::filesystem::path& folder) {
  const auto there = [&](const char* name) {
    std::error_code none;
    return std::filesystem::exists(folder / name, none);
  };
  return there(kConfigFile) || there(kResultFile) || there(kTriesFile);
}

// A run that was begun, here or elsewhere, and has no record yet.
bool is_unended(const std::filesystem::path& run) {
  std::error_code none;
  if (std::filesystem::exists(run / kResultFile, none)) return false;
  return std::filesystem::exists(run / kMetricsFile, none);
}

// Why what a folder holds cannot be found there; "" where it can.
std::string unreadable(const std::filesystem::path& folder) {
  if (::faccessat(AT_FDCWD, folder.c_str(), R_OK | X_OK, AT_EACCESS) == 0) return "";
  return "cannot be read: " + std::generic_category().message(errno);
}

// The files below a folder that may be records, and config.json of runs that have not ended. What
// cannot be read goes to `bad`.
std::vector<std::filesystem::path> files_below(const std::filesystem::path& path,
                                               std::vector<BadFile>& bad) {
  namespace fs = std::filesystem;
  std::error_code code;
  std::vector<fs::path> files;
  std::set<fs::path> folders = {fs::canonical(path, code)};
  // Links too, as runs are moved to larger disks; each folder once.
  fs::recursive_directory_iterator it(path,
                                      fs::directory_options::skip_permission_denied |
                                          fs::directory_options::follow_directory_symlink,
                                      code);
  for (; !code && it != fs::recursive_directory_iterator(); it.increment(code)) {
    const fs::path name = it->path().filename();
    std::error_code none;
    const fs::path folder = it->path().parent_path();
    // The first of two runs: what it cost is in the record of the second.
    const bool first = name == kPretrainingFolder && holds_run(folder),
               is_folder = it->is_directory(none);
    const std::string closed = is_folder ? unreadable(it->path()) : "";
    if (!closed.empty()) bad.push_back({it->path().string(), closed});
    if (first || !closed.empty() ||
        (is_folder && !folders.insert(fs::canonical(it->path(), none)).second))
      it.disable_recursion_pending();
    if (first && !fs::exists(folder / kConfigFile, none) && is_unended(it->path()))
      files.push_back(it->path() / kConfigFile);
    const bool wanted = name == kResultFile || (name == kConfigFile && is_unended(folder)) ||
                        (name.extension() == ".jsonl" && name != kMetricsFile);
    std::error_code kind;
    if (wanted && it->is_regular_file(kind)) {
      files.push_back(it->path());
    } else if (wanted) {
      bad.push_back({it->path().string(), "is no regular file"});
    }
  }
  if (const std::string closed = unreadable(path); !closed.empty()) {
    bad.push_back({path.string(), closed});
  } else if (code) {
    bad.push_back({path.string(), "cannot be walked: " + code.message()});
  }
  return files;
}

}  // namespace

Records find_records(const std::vector<std::filesystem::path>& paths) {
  namespace fs = std::filesystem;
  Records records;
  SuiteBudgets budgets;
  std::set<fs::path> seen;
  const auto read = [&](const fs::path& path, const bool named) {
    std::error_code code;
    const fs::path real = fs::canonical(path, code);
    if (!code && !seen.insert(real).second) return;
    if (path.filename() == kConfigFile && !named) {
      records.bad.push_back({path.parent_path().string(),
                             fmt::format("a run that has not ended: no {}", kResultFile)});
      return;
    }
    try {
      if (path.extension() == ".jsonl") {
        read_lines(path, named, records);
      } else {
        read_one(path, named, budgets, records);
      }
    } catch (const std::exception& error) {
      records.bad.push_back({path.string(), error.what()});
    }
  };
  for (const fs::path& path : paths) {
    std::error_code code;
    const fs::file_status status = fs::status(path, code);
    if (!fs::exists(status)) {
      records.bad.push_back({path.string(), "no such file or folder"});
    } else if (!fs::is_directory(status)) {
      read(path, /*named=*/true);
    } else {
      std::vector<fs::path> files = files_below(path, records.bad);
      std::sort(files.begin(), files.end());
      for (const fs::path& file : files) read(file, /*named=*/false);
    }
  }
  // Of two runs of a seed the first by path counts, in whatever order folders were named.
  std::ranges::stable_sort(records.results, {}, &Result::path);
  return records;
}

}  // namespace lra
