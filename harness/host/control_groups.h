// The memory that Linux's control groups leave to this process: containers, and jobs of Slurm,
// have less than the machine.
#pragma once

#include <cstdint>
#include <filesystem>

namespace lra::host {

/// Bytes that may still be allocated before a group that this process is in, or a group around it,
/// is at its limit; the largest int64_t where none has one. Files in memory that the kernel would
/// give up first count as free. Both versions of the interface; `root` is where /proc and /sys are.
int64_t control_groups_left(const std::filesystem::path& root = "/");

}  // namespace lra::host
