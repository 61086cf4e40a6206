// How much memory control groups leave, read from files as both versions of the interface have
// them.
#include "harness/host/kernel_facts.h"

#include <gtest/gtest.h>

#include <limits>

#include "harness/host/memory.h"
#include "tests/support/scratch.h"

namespace lra {
namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

// A root folder with the files that a test gives.
class ControlGroups : public testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = scratch_.path() / path;
    std::filesystem::create_directories(file.parent_path());
    write_file(file, text);
  }
  void group2(const std::string& path, const std::string& most, const std::string& used) const {
    write("sys/fs/cgroup/" + path + "memory.max", most + "\n");
    write("sys/fs/cgroup/" + path + "memory.current", used + "\n");
  }
  int64_t left() const { return host::control_groups_left(scratch_.path()); }

  Scratch scratch_;
};

TEST_F(ControlGroups, NoneLeaveEverything) {
  EXPECT_EQ(left(), kUnlimited);
  write("proc/self/cgroup", "0::/\n");
  EXPECT_EQ(left(), kUnlimited);
}

TEST_F(ControlGroups, OfVersionTwoTheTightestOnTheWayUpCounts) {
  write("proc/self/cgroup", "0::/system.slice/slurm/job_7/step_0\n");
  group2("system.slice/slurm/job_7/step_0/", "max", "100");
  EXPECT_EQ(left(), kUnlimited);
  group2("system.slice/slurm/job_7/", "5000", "1500");
  EXPECT_EQ(left(), 3500);
  group2("system.slice/", "4000", "2000");
  EXPECT_EQ(left(), 2000);
  group2("system.slice/slurm/job_7/step_0/", "1000", "400");
  EXPECT_EQ(left(), 600);
  group2("", "500", "700");  // the root of a container has a limit
  EXPECT_EQ(left(), 0);
}

TEST_F(ControlGroups, IdleFilesInMemoryAreFree) {
  write("proc/self/cgroup", "0::/job\n");
  group2("job/", "5000", "4500");
  write("sys/fs/cgroup/job/memory.stat", "anon 1000\nfile 3500\ninactive_file 3000\n");
  EXPECT_EQ(left(), 3500);
}

TEST_F(ControlGroups, OfVersionOneItIsTheMemoryControllers) {
  write("proc/self/cgroup", "11:cpuset:/other\n9:cpu,memory:/slurm/uid_0/job_7\n0::/x\n");
  const std::string memory = "sys/fs/cgroup/memory/";
  write(memory + "slurm/uid_0/job_7/memory.limit_in_bytes", "9223372036854771712\n");
  write(memory + "slurm/uid_0/job_7/memory.usage_in_bytes", "100\n");
  EXPECT_GT(left(), int64_t{1} << 60);
  write(memory + "slurm/memory.limit_in_bytes", "8000\n");
  write(memory + "slurm/memory.usage_in_bytes", "3000\n");
  write(memory + "slurm/memory.stat", "inactive_file 9\ntotal_inactive_file 1000\n");
  EXPECT_EQ(left(), 6000);
}

TEST_F(ControlGroups, APathOutsideOfTheContainerIsItsRoot) {
  write("proc/self/cgroup", "0::/../../other\n");
  group2("", "5000", "1000");
  group2("other/", "10", "0");
  EXPECT_EQ(left(), 4000);
}

TEST_F(ControlGroups, TheDefaultLimitIsOfTheLeastOfMachineAndGroups) {
  write("proc/meminfo", "MemTotal:  100 kB\nMemAvailable:   10 kB\n");
  EXPECT_EQ(host::default_memory_limit(scratch_.path()), 8 * 1024);
  write("proc/self/cgroup", "0::/job\n");
  group2("job/", "6000", "1000");
  EXPECT_EQ(host::default_memory_limit(scratch_.path()), 4000);
  EXPECT_EQ(host::free_memory(scratch_.path()), 5000);
}

}  // namespace
}  // namespace lra
