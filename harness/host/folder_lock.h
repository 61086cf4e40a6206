// A lock on a folder, which the system frees as soon as the process that holds it ends, for any
// reason.
//
// It is an open-file-description lock (fcntl F_OFD_SETLK) on a file in the folder. The kernel holds
// it for exactly as long as the holder runs: on local disks, and on NFS, where the server keeps it
// and drops it with its client. A file with a heartbeat could guarantee neither: a holder that was
// merely stopped, or slow, would be taken for ended and continue beside its successor. Unlike flock
// it can be queried without being taken (F_OFD_GETLK), so that a query disturbs no one. The lock
// file stays when the lock is freed, unless its holder asked for the contrary; who takes a lock
// looks whether the file of that name is still the one that it has locked.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

namespace lra::host {

/// Who holds a lock, as it wrote itself down: for messages, never for a decision.
struct LockHolder {
  std::string host;   // "" = not known
  int64_t pid = 0;    // 0 = not known
  std::string since;  // "2026-01-31T12:00:00Z"

  /// "process 123", with " on HOST" where that is another host, or "another process".
  std::string text() const;
};

/// A lock on a folder for the life of this object.
class FolderLock {
 public:
  /// Throws Error where another process, or another object of this one, holds it, and where the
  /// file system has no locks.
  explicit FolderLock(const std::filesystem::path& folder, const std::string& name = kName);
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&&) = delete;
  ~FolderLock();

  /// The same, but nothing where it is held.
  static std::optional<FolderLock> try_lock(const std::filesystem::path& folder,
                                            const std::string& name = kName);
  /// Waits until it is free and says so once; throws Interrupted after Ctrl-C.
  static FolderLock wait(const std::filesystem::path& folder, const std::string& name,
                         const std::string& what);

  /// A lock on the writing of one file: on .NAME.lock beside it, which goes with this object.
  /// Throws Error where another holds it.
  static FolderLock of_file(const std::filesystem::path& file);

  /// The lock's file is removed at the end: for folders that hold nothing else of ours.
  FolderLock&& removed_at_end() &&;

  static constexpr const char* kName = "lock";

 private:
  FolderLock(int descriptor, std::filesystem::path path)
      : descriptor_(descriptor), path_(std::move(path)) {}
  int descriptor_;
  std::filesystem::path path_;
  bool removed_ = false;
};

/// Who holds the lock of that name now; nothing where it is free or was never taken. Takes nothing.
std::optional<LockHolder> lock_holder(const std::filesystem::path& folder,
                                      const std::string& name = FolderLock::kName);

/// This host's name, and the time as locks and logs write it.
std::string host_name();
std::string utc_now();

}  // namespace lra::host
