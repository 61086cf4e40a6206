// What Linux says of this process and its machine, in files and by calls of the system.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace lra::host {

/// The number behind a line's first word, "MemAvailable:" of /proc/meminfo; nothing where there is
/// no such file or line.
std::optional<int64_t> number_after(const std::filesystem::path& file, const std::string& word);

/// The processors that this process may use, rising; none where the system does not say.
std::vector<int> allowed_processors();

/// Bytes that may still be allocated before a control group that this process is in, or one around
/// it, is at its limit, as containers and jobs of Slurm have less than the machine; the largest
/// int64_t where none has one. Files in memory that the kernel would give up first count as free.
/// Both versions of the interface; `root` is where /proc and /sys are.
int64_t control_groups_left(const std::filesystem::path& root = "/");

}  // namespace lra::host
