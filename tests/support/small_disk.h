// A disk that is soon full.
#pragma once

#include <sys/mount.h>

#include "tests/support/scratch.h"

namespace lra {

/// A folder on a file system of its own in memory, of so many KiB.
class SmallDisk {
 public:
  explicit SmallDisk(int kib)
      : mounted_(mount("tmpfs", scratch_.path().c_str(), "tmpfs", 0,
                       ("size=" + std::to_string(kib) + "k").c_str()) == 0) {}
  ~SmallDisk() {
    if (mounted_) umount(scratch_.path().c_str());
  }
  /// False where mounting is not allowed: skip the test then.
  bool mounted() const { return mounted_; }
  const std::filesystem::path& path() const { return scratch_.path(); }
  int64_t entries() const { return std::distance(std::filesystem::directory_iterator(path()), {}); }

 private:
  Scratch scratch_;
  bool mounted_;
};

inline constexpr const char* kFullDisk =
    ": No space left on device; free some space there or choose another place";

}  // namespace lra
