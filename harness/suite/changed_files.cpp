#include "harness/suite/changed_files.h"

#include <fmt/format.h>

#include <algorithm>

#include "attention_variants/base/files.h"
#include "harness/suite/suite_file.h"
#include "harness/training/resume.h"

namespace lra::suite {
namespace {

namespace fs = std::filesystem;

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

// In the folders of all runs of the attention.
fs::path kept_by_any(const std::vector<PlannedRun>& runs, const std::string& attention) {
  for (const PlannedRun& one : runs) {
    if (named_by(one.config) != attention) continue;
    const json options = part_of(one.config, "/attention/options");
    for (const fs::path& folder : {one.run, one.run / kPretrainingFolder}) {
      if (const fs::path kept = kept_file(options, folder); !kept.empty()) return kept;
    }
  }
  return {};
}

}  // namespace

std::vector<ChangedFile> changed_files(const std::vector<PlannedRun>& runs) {
  std::vector<std::string> seen;
  std::vector<ChangedFile> changed;
  for (const PlannedRun& one : runs) {
    const std::string attention = named_by(one.config);
    if (attention.empty() || std::ranges::count(seen, attention) > 0) continue;
    seen.push_back(attention);
    const json options = part_of(one.config, "/attention/options");
    const auto state = options.is_object() ? file_state(options) : std::nullopt;
    if (!state || *state == FileState::same) continue;
    changed.push_back({.attention = attention,
                       .what = changed_text(options),
                       .kept = kept_by_any(runs, attention)});
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
  return changed_files(runs);
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
