#include "harness/host/temporary_folder.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "attention_variants/base/error.h"
#include "attention_variants/base/files.h"

namespace lra::host {

std::filesystem::path temporary_place() {
  const char* const named = std::getenv("TMPDIR");
  if (named != nullptr && *named == '\0') return "/tmp";  // as where it is not set
  std::error_code none;
  std::filesystem::path place = std::filesystem::temp_directory_path(none);
  if (!none) return place;
  throw Error(
      fmt::format("TMPDIR is {}, which is no folder that can be used ({}); name one that is",
                  named == nullptr ? "not set, and so /tmp" : named, none.message()));
}

TemporaryFolder::TemporaryFolder(const std::filesystem::path& where, const std::string& name) {
  std::string path = (where / (name + "-XXXXXX")).string();
  if (mkdtemp(path.data()) == nullptr)
    throw Error(
        fmt::format("cannot make a folder in {}: {}", where.string(), std::strerror(errno)));
  path_ = path;
}

TemporaryFolder::~TemporaryFolder() {
  try {
    remove_tree(path_);
  } catch (const std::exception&) {  // what cannot be removed stays
  }
}

}  // namespace lra::host
