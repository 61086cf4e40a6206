#include "harness/suite/changed_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "attention_variants/base/files.h"
#include "attention_variants/python_host.h"
#include "harness/suite/suite_file.h"
#include "harness/training/resume.h"

namespace lra::suite {
namespace {

namespace fs = std::filesystem;

// Of the hash of what is kept, in the name of its folder.
constexpr size_t kKeptDigits = 16;

// A part of a configuration in a file; empty where it is not there.
json part_of(const json& config, const char* at) {
  const json::json_pointer place(at);
  return config.is_object() && config.contains(place) ? config.at(place) : json::object();
}

// As it is named; "" of what is no configuration.
std::string named_by(const json& config) {
  const json name = part_of(config, "/attention/name"), given = part_of(config, "/attention/given");
  if (!name.is_string() || !given.is_object()) return "";
  return AttentionSpec{.name = name, .options = given}.text();
}

// The file that the attention is named by, from the current folder; "" where it is none.
std::string own_file(const AttentionSpec& attention) {
  const auto it = attention.options.find("file");
  const bool named = it != attention.options.end() && it->is_string();
  const std::string file = named ? it->get<std::string>() : "";
  return fs::path(file).is_relative() ? file : "";
}

// Where a suite's folder keeps what an attention is made from, by effective options that name a
// file: two that import others from beside them are two.
fs::path kept_place(const fs::path& out, const json& options) {
  const std::string hash = options.at("sha256");
  const json imports = options.value(kImportsHash, json::object());
  const std::string key = imports.empty() ? hash : sha256(hash + imports.dump());
  return out / kAttentionsFolder / key.substr(0, kKeptDigits);
}

// What was planned by these effective options, which name a file, as a suite's folder keeps it: in
// its own place, or in that of any run, as attentions that differ by options share a file.
fs::path kept_in(const fs::path& out, const std::vector<fs::path>& runs, const json& options) {
  if (const fs::path kept = kept_file(options, kept_place(out, options)); !kept.empty())
    return kept;
  for (const fs::path& run : runs) {
    for (const fs::path& folder : {run, run / kPretrainingFolder}) {
      if (const fs::path kept = kept_file(options, folder); !kept.empty()) return kept;
    }
  }
  return {};
}

// Nothing where the file of these effective options is what they say, or they name none.
std::optional<ChangedFile> changed_file(const std::string& attention, const json& options,
                                        const std::vector<fs::path>& runs, const fs::path& out) {
  const auto state = options.is_object() ? file_state(options) : std::nullopt;
  if (!state || *state == FileState::same) return std::nullopt;
  return ChangedFile{
      .attention = attention, .what = changed_text(options), .kept = kept_in(out, runs, options)};
}

// The options of attentions that are made from files, by the folders where the suite keeps these.
std::map<fs::path, json> kept_places(const Suite& suite) {
  std::map<fs::path, json> places;
  std::set<std::string> seen;
  for (const SuiteCell& cell : suite.cells) {
    const json& options = cell.config.attention_options;
    if (seen.insert(options.dump()).second && file_state(options))
      places.emplace(kept_place(suite.request.out, options), options);
  }
  return places;
}

}  // namespace

std::vector<ChangedFile> changed_files(const std::vector<PlannedRun>& runs, const fs::path& out) {
  std::vector<fs::path> folders;
  for (const PlannedRun& one : runs) folders.push_back(one.run);
  std::vector<std::string> seen;
  std::vector<ChangedFile> changed;
  for (const PlannedRun& one : runs) {
    const std::string attention = named_by(one.config);
    if (attention.empty() || std::ranges::count(seen, attention) > 0) continue;
    seen.push_back(attention);
    const json options = part_of(one.config, "/attention/options");
    if (auto of = changed_file(attention, options, folders, out)) changed.push_back(std::move(*of));
  }
  return changed;
}

std::vector<ChangedFile> changed_files(const fs::path& out) {
  if (!fs::exists(out / kSuiteFile)) return {};
  std::vector<PlannedRun> runs;
  try {
    const SuiteFile held = parse_suite_file(read_json(out / kSuiteFile));
    for (size_t i = 0; i < std::min(held.cells.size(), held.runs.size()); ++i)
      runs.push_back({.config = held.cells[i], .run = out / held.runs[i]});
  } catch (const std::runtime_error&) {  // who reads it next says so
    return {};
  }
  return changed_files(runs, out);
}

std::optional<ChangedFile> changed_now(const Suite& suite, const AttentionSpec& attention) {
  const std::string name = attention.text();
  const auto cell = std::ranges::find_if(
      suite.cells, [&](const SuiteCell& one) { return one.config.attention.text() == name; });
  if (cell == suite.cells.end()) return std::nullopt;
  std::vector<fs::path> folders;
  for (const SuiteCell& one : suite.cells) folders.push_back(one.run);
  const json options = part_of(cell->config.to_json(), "/attention/options");
  return changed_file(name, options, folders, suite.request.out);
}

void keep_files(const Suite& suite) {
  for (const auto& [place, options] : kept_places(suite)) {
    fs::create_directories(place);
    keep_attention(place, options);
  }
}

void remove_kept_files(const Suite& suite) {
  for (const auto& [place, options] : kept_places(suite)) remove_tree(place);
  std::error_code not_empty;
  fs::remove(suite.request.out / kAttentionsFolder, not_empty);
}

void check_kept(const std::vector<ChangedFile>& changed, const fs::path& out) {
  for (const ChangedFile& one : changed) {
    if (!one.kept.empty()) continue;
    throw Error(fmt::format(
        "{}: {} since its runs in {} were planned, and none of them keeps what it was; put that "
        "back, or choose another --out folder",
        one.attention, one.what, out.string()));
  }
}

std::string folder_of(const std::vector<AttentionSpec>& attentions) {
  const bool any = std::ranges::any_of(
      attentions, [](const AttentionSpec& attention) { return !own_file(attention).empty(); });
  return any ? fs::current_path().string() : "";
}

void check_folder(const std::vector<AttentionSpec>& attentions, const std::string& folder,
                  const fs::path& out) {
  if (folder.empty()) return;
  for (const AttentionSpec& attention : attentions) {
    const std::string file = own_file(attention);
    if (file.empty() || fs::exists(file) || !fs::exists(fs::path(folder) / file)) continue;
    const fs::path place = fs::absolute(out).lexically_normal();
    throw Error(fmt::format("{}: {} is named from the folder {}: call lra there, with --out {}",
                            (out / kSuiteFile).string(), attention.text(), folder,
                            (place.has_filename() ? place : place.parent_path()).string()));
  }
}

}  // namespace lra::suite
