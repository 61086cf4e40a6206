// Files of attentions that change, or go, while a suite is under way: its folder keeps what they
// were, in OUT/attentions since it was opened, and each run in its own folder.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "harness/suite/suite.h"

namespace lra::suite {

/// Files of attentions as they were planned, in a suite's folder.
inline constexpr const char* kAttentionsFolder = "attentions";

/// A run that was planned: its configuration, as Config::to_json() has it, and its folder.
struct PlannedRun {
  json config;
  std::filesystem::path run;
};

/// The attentions of these runs, of the suite or search in `out`, whose files are no more what the
/// configurations say.
std::vector<ChangedFile> changed_files(const std::vector<PlannedRun>& runs,
                                       const std::filesystem::path& out);

/// Those of the suite in a folder; nothing where there is none, or its file cannot be read.
std::vector<ChangedFile> changed_files(const std::filesystem::path& out);

/// How an attention's file stands now: nothing where it is what its cells were planned by, or there
/// is none.
std::optional<ChangedFile> changed_now(const Suite& suite, const AttentionSpec& attention);

/// Has OUT/attentions keep the files of a suite's attentions, with what classes import from beside
/// them, for whatever reads them later. Throws Error where one is no more what it was planned by.
void keep_files(const Suite& suite);

/// Removes what keep_files() made.
void remove_kept_files(const Suite& suite);

/// Throws Error that names a file which has changed and which nothing in `out` keeps.
void check_kept(const std::vector<ChangedFile>& changed, const std::filesystem::path& out);

/// The current folder where files of these attentions are named from it, else "".
std::string folder_of(const std::vector<AttentionSpec>& attentions);

/// Throws Error where a file that is named from `folder`, as the suite in `out` was, is there and
/// not where it is named from the current one. "" = not known.
void check_folder(const std::vector<AttentionSpec>& attentions, const std::string& folder,
                  const std::filesystem::path& out);

}  // namespace lra::suite
