#include "harness/host/kernel_facts.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <limits>

namespace lra::host {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

// The names that one version gives to the same files.
struct Interface {
  const char *most, *used, *files;  // `files`: the word in memory.stat before idle files' bytes
};
constexpr Interface kVersion1 = {"memory.limit_in_bytes", "memory.usage_in_bytes",
                                 "total_inactive_file"};
constexpr Interface kVersion2 = {"memory.max", "memory.current", "inactive_file"};

int64_t left_in(const fs::path& group, const Interface& names) {
  int64_t most = 0, used = 0;
  if (!(std::ifstream(group / names.most) >> most) ||  // "max" is no number
      !(std::ifstream(group / names.used) >> used)) {
    return kUnlimited;
  }
  const int64_t idle = std::min(number_after(group / "memory.stat", names.files).value_or(0), used);
  return std::max<int64_t>(most - (used - idle), 0);
}

// Of the group at `path` below the mount and of all around it: any may have the smallest limit. A
// container may name its group by a path of the host that it cannot see; its mount is the group.
int64_t left_on_the_way_up(const fs::path& mount, const std::string& path, const Interface& names) {
  int64_t left = left_in(mount, names);
  fs::path group = fs::path(path).relative_path();
  if (path.find("..") != std::string::npos) group.clear();  // outside of what is mounted
  for (; !group.empty(); group = group.parent_path())
    left = std::min(left, left_in(mount / group, names));
  return left;
}

}  // namespace

int64_t control_groups_left(const fs::path& root) {
  const fs::path mount = root / "sys/fs/cgroup";
  int64_t left = kUnlimited;
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "4:cpu,memory:/slurm/job_7", "0::/job"
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",",
                      path = line.substr(second + 1);
    if (controllers.find(",memory,") != std::string::npos) {
      left = std::min(left, left_on_the_way_up(mount / "memory", path, kVersion1));
    } else if (controllers == ",,") {
      left = std::min(left, left_on_the_way_up(mount, path, kVersion2));
    }
  }
  return left;
}

std::optional<int64_t> number_after(const std::filesystem::path& file, const std::string& word) {
  std::ifstream in(file);
  for (std::string first; in >> first;) {
    int64_t value = 0;
    if (first == word) return in >> value ? std::optional(value) : std::nullopt;
    in.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::nullopt;
}

std::vector<int> allowed_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> allowed;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return allowed;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &set)) allowed.push_back(i);
  }
  return allowed;
}

}  // namespace lra::host
