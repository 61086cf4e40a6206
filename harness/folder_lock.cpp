#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "harness/trainer.h"

namespace lra {

FolderLock::FolderLock(const std::filesystem::path& folder) {
  const std::string path = (folder / "lock").string();
  descriptor_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor_ < 0) throw Error("cannot open " + path + ": " + std::strerror(errno));
  if (flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    char holder[32] = {};
    const bool known = pread(descriptor_, holder, sizeof holder - 1, 0) > 0;
    close(descriptor_);
    throw Error(fmt::format("{} is in use by process {}; wait for it or choose another folder",
                            folder.string(), known ? std::string(holder) : "(unknown)"));
  }
  const std::string self = std::to_string(getpid());
  if (ftruncate(descriptor_, 0) != 0 || pwrite(descriptor_, self.data(), self.size(), 0) < 0) {
    // The number only helps the message above; the lock holds without it.
  }
}

FolderLock::~FolderLock() { close(descriptor_); }

}  // namespace lra
