// A folder for the time of a scope.
#pragma once

#include <filesystem>
#include <string>

namespace lra::host {

/// The system's folder for temporary files: TMPDIR, else /tmp. Throws Error where it is none.
std::filesystem::path temporary_place();

/// Made under `where`, and removed with all that it holds. Throws Error where it cannot be made.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::filesystem::path& where, const std::string& name = ".lra");
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace lra::host
