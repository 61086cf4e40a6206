// Those who run jobs of one folder: each keeps a mark in OUT/runners while it runs.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "harness/host/folder_lock.h"

namespace lra::host {

/// A runner's mark: a locked file with a number that goes up. The lock says that its runner is
/// running; the number shows those who can take the lock nevertheless that locks do not reach from
/// host to host there (NFS mounted with nolock, say), so that no cell is run twice unseen.
class RunnerHeartbeat {
 public:
  /// Throws Error where a runner of another host is alive and its lock is not seen from here. What
  /// runners that died left is removed.
  explicit RunnerHeartbeat(const std::filesystem::path& out,
                           std::chrono::milliseconds beat = kBeat);
  ~RunnerHeartbeat();
  RunnerHeartbeat(const RunnerHeartbeat&) = delete;
  RunnerHeartbeat& operator=(const RunnerHeartbeat&) = delete;

  static constexpr std::chrono::milliseconds kBeat{2000};

 private:
  std::filesystem::path folder_;
  std::string name_;
  FolderLock lock_;
  std::jthread beat_;
};

/// The runners that are running.
std::vector<LockHolder> runners(const std::filesystem::path& out);

}  // namespace lra::host
