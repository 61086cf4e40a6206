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
  const bool given = named != nullptr && *named != '\0';
  const std::filesystem::path place = given ? named : "/tmp";
  std::error_code none;
  if (std::filesystem::is_directory(place, none)) return place;
  throw Error(fmt::format("TMPDIR is {}, which is no folder that can be used{}; name one that is",
                          given ? named : "not set, and so /tmp",
                          none ? " (" + none.message() + ")" : ""));
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
