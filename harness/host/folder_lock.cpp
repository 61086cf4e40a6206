#include "harness/host/folder_lock.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <thread>
#include <utility>

#include "attention_variants/base/fields.h"
#include "attention_variants/base/file_errors.h"
#include "attention_variants/base/files.h"
#include "harness/host/progress.h"
#include "harness/host/signals.h"

namespace lra::host {
namespace {

struct flock whole_file(short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  return lock;
}

Error no_locks(const std::string& path, int error) {
  return Error(fmt::format(
      "cannot lock {}: {}; choose a folder on a file system with locks (a local disk, or NFS "
      "mounted without nolock)",
      path, std::strerror(error)));
}

LockHolder read_holder(int descriptor) {
  char text[512] = {};
  const ssize_t count = pread(descriptor, text, sizeof text - 1, 0);
  const json value =
      json::parse(std::string(text, static_cast<size_t>(std::max<ssize_t>(count, 0))), nullptr,
                  /*allow_exceptions=*/false);
  if (!value.is_object()) return {};
  const auto word = [&](const char* name) {
    return value.contains(name) && value[name].is_string() ? value[name].get<std::string>() : "";
  };
  LockHolder holder{.host = word("host"), .since = word("since")};
  if (value.contains("pid") && value["pid"].is_number_integer()) holder.pid = value["pid"];
  return holder;
}

// False where the file was removed, or another stands in its place, since it was opened.
bool is_file(int descriptor, const std::string& path) {
  struct stat opened {
  }, there{};
  return fstat(descriptor, &opened) == 0 && stat(path.c_str(), &there) == 0 &&
         opened.st_dev == there.st_dev && opened.st_ino == there.st_ino;
}

// An open descriptor with the lock, or -1 where it is held.
int take(const std::filesystem::path& folder, const std::string& name, LockHolder* holder) {
  const std::string path = (folder / name).string();
  const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor < 0)
    throw Error("cannot open " + path + ": " + std::strerror(errno) + advice_on(errno));
  struct flock lock = whole_file(F_WRLCK);
  if (fcntl(descriptor, F_OFD_SETLK, &lock) != 0) {
    const int error = errno;
    if (holder != nullptr) *holder = read_holder(descriptor);
    close(descriptor);
    if (error != EAGAIN && error != EACCES) throw no_locks(path, error);
    return -1;
  }
  if (!is_file(descriptor, path)) {
    close(descriptor);
    return take(folder, name, holder);
  }
  const std::string self =
      json{{"host", host_name()}, {"pid", getpid()}, {"since", utc_now()}}.dump() + "\n";
  if (ftruncate(descriptor, 0) != 0 || pwrite(descriptor, self.data(), self.size(), 0) < 0) {
    // The words only help messages; the lock holds without them.
  }
  return descriptor;
}

}  // namespace

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

std::string utc_now() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
}

std::string LockHolder::text() const {
  if (pid == 0) return "another process";
  return fmt::format("process {}{}", pid, host.empty() || host == host_name() ? "" : " on " + host);
}

FolderLock::FolderLock(const std::filesystem::path& folder, const std::string& name) {
  LockHolder holder;
  path_ = folder / name;
  descriptor_ = take(folder, name, &holder);
  if (descriptor_ < 0) {
    throw Error(fmt::format("{} is in use by {}; wait for it or choose another folder",
                            folder.string(), holder.text()));
  }
}

FolderLock::FolderLock(FolderLock&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      path_(std::move(other.path_)),
      removed_(other.removed_) {}

FolderLock::~FolderLock() {
  if (descriptor_ < 0) return;
  if (removed_) unlink(path_.c_str());  // while it is still locked
  close(descriptor_);
}

FolderLock FolderLock::of_file(const std::filesystem::path& given) {
  const std::filesystem::path file = link_target(given);  // which is what is written
  const auto folder = file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored))
    throw Error("cannot write " + file.string() + ": there is no folder " + folder.string());
  LockHolder holder;
  const std::string name = "." + file.filename().string() + ".lock";
  const int descriptor = take(folder, name, &holder);
  if (descriptor < 0) {
    throw Error(fmt::format("{} is being written by {}; wait for it or choose another file",
                            file.string(), holder.text()));
  }
  return FolderLock(descriptor, folder / name).removed_at_end();
}

FolderLock&& FolderLock::removed_at_end() && {
  removed_ = true;
  return std::move(*this);
}

std::optional<FolderLock> FolderLock::try_lock(const std::filesystem::path& folder,
                                               const std::string& name) {
  const int descriptor = take(folder, name, nullptr);
  if (descriptor < 0) return std::nullopt;
  return FolderLock(descriptor, folder / name);
}

FolderLock FolderLock::wait(const std::filesystem::path& folder, const std::string& name,
                            const std::string& what) {
  for (bool told = false;; told = true) {
    if (auto lock = try_lock(folder, name)) return std::move(*lock);
    if (!told) {
      const auto holder = lock_holder(folder, name);
      say(fmt::format("waiting for {}: {} is at it", what, holder ? holder->text() : "another"));
    }
    for (int i = 0; i < 5; ++i) {
      if (stop_requested()) throw Interrupted("stopped while waiting for " + what);
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }
}

std::optional<LockHolder> lock_holder(const std::filesystem::path& folder,
                                      const std::string& name) {
  const std::string path = (folder / name).string();
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
    throw Error("cannot open " + path + ": " + std::strerror(errno));
  }
  struct flock lock = whole_file(F_WRLCK);
  const int failed = fcntl(descriptor, F_OFD_GETLK, &lock);
  const int error = errno;
  std::optional<LockHolder> holder;
  if (failed == 0 && lock.l_type != F_UNLCK) holder = read_holder(descriptor);
  close(descriptor);
  if (failed != 0) throw no_locks(path, error);
  return holder;
}

}  // namespace lra::host
