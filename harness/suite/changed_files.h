// Files of attentions that change, or go, while a suite is under way: its runs keep what they were.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/suite/suite.h"

namespace lra::suite {

/// A run that was planned: its configuration, as Config::to_json() has it, and its folder.
struct PlannedRun {
  json config;
  std::filesystem::path run;
};

/// The attentions of these runs whose files are no more what the configurations say.
std::vector<ChangedFile> changed_files(const std::vector<PlannedRun>& runs);

/// Those of the suite in a folder; nothing where there is none, or its file cannot be read.
std::vector<ChangedFile> changed_files(const std::filesystem::path& out);

/// Throws Error that names a file which has changed and which none of the runs in `out` keeps.
void check_kept(const std::vector<ChangedFile>& changed, const std::filesystem::path& out);

/// The current folder where files of these attentions are named from it, else "".
std::string folder_of(const std::vector<AttentionSpec>& attentions);

/// Throws Error where a file that is named from `folder`, as the suite in `out` was, is there and
/// not where it is named from the current one. "" = not known.
void check_folder(const std::vector<AttentionSpec>& attentions, const std::string& folder,
                  const std::filesystem::path& out);

}  // namespace lra::suite
