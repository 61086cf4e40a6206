// The files of a report in a folder, which a later report into it removes where it has none such.
#pragma once

#include <filesystem>
#include <set>
#include <string>

namespace lra {

/// The list of them in the folder, a line each, itself included.
inline constexpr const char* kReportFiles = "report-files.txt";

/// What a report wrote, as it goes; the folder is locked by the caller.
class ReportFiles {
 public:
  /// Reads the list of the report before, if there is one. Names that lead out of the folder are
  /// passed over.
  explicit ReportFiles(std::filesystem::path folder);

  /// Throws Error where one of these names lies in the folder and is of no report before.
  void refuse_others(const std::set<std::string>& names) const;

  /// To be called before files of these names are written: a report that is killed leaves a list of
  /// all that it may have written.
  void begin(const std::set<std::string>& names);

  /// Removes what the report before wrote and this one did not, and lists this one's.
  void finish(const std::set<std::string>& written);

 private:
  void write(const std::set<std::string>& names) const;

  std::filesystem::path folder_;
  std::set<std::string> known_;
};

}  // namespace lra
