// The limit on the address space: what passes it is an error that a cell reports, and no process
// has to be killed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <map>
#include <ranges>

#include "harness/host/memory.h"
#include "harness/host/runtime.h"
#include "harness/profile/profiler.h"
#include "tests/harness/program.h"

namespace lra {
namespace {

constexpr int64_t kMiBytes = int64_t{1} << 20;

// What `work` says in a process of its own, which keeps one thread, and "" where that is killed or
// does not end.
std::string said_in_child(const std::function<std::string()>& work) {
  int result[2];
  EXPECT_EQ(pipe(result), 0);
  const pid_t child = fork();
  if (child == 0) {
    alarm(120);
    at::set_num_threads(1);
    std::string said;
    try {
      said = work();
    } catch (const std::exception& error) {
      said = std::string("threw ") + error.what();
    }
    const bool written =
        write(result[1], said.data(), said.size()) == static_cast<ssize_t>(said.size());
    _exit(written ? 0 : 1);
  }
  close(result[1]);
  std::string said(1 << 16, '\0');
  size_t count = 0;
  for (ssize_t more = 0; (more = read(result[0], said.data() + count, said.size() - count)) > 0;)
    count += static_cast<size_t>(more);
  close(result[0]);
  said.resize(count);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  return WIFEXITED(status) ? said : "";
}

// One sample of a cell of 2 heads of 32, whose matrix takes 8 N² bytes; no limit on tensors.
std::string measured(const std::string& attention, int64_t length) {
  const Profile record = profile::profile_cell(
      {.attention = parse_attention(attention), .length = length}, torch::kCPU, 1,
      /*memory_limit=*/0, {.seconds = 0, .fewest = 1, .least_seconds = 0});
  return to_string(record.status) + (record.reason.empty() ? "" : ": " + record.reason) + "\n";
}

TEST(AddressSpaceTest, ACellBeyondItIsOutOfMemoryAndTheNextOneRuns) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "AddressSanitizer ends a process that is out of memory";
#endif
  const std::string said = said_in_child([] {
    // With the room for two threads' arenas 320 MiB; the matrix of 8192 takes 512 MiB.
    host::limit_address_space(64 * kMiBytes, 1);
    return measured("standard[implementation=materialized]", 8192) +
           measured("standard[implementation=materialized]", 128);
  });
  EXPECT_TRUE(said.starts_with("oom: ")) << said;
  EXPECT_NE(said.find("can't allocate memory"), std::string::npos) << said;
  EXPECT_TRUE(said.ends_with("\nok\n")) << said;
}

TEST(AddressSpaceTest, HoldsForWhatIsNoTensor) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "AddressSanitizer ends a process that is out of memory";
#endif
  const std::string said = said_in_child([] {
    host::limit_address_space(64 * kMiBytes, 1);
    std::string text;
    for (const int64_t bytes : {32 * kMiBytes, 1024 * kMiBytes}) {
      try {
        const std::vector<char> taken(static_cast<size_t>(bytes), 'x');
        text += fmt::format("{} ", taken.back());
      } catch (const std::exception& error) {
        text += to_string(host::status_of(error));
      }
    }
    return text;
  });
  EXPECT_EQ(said, "x oom");
}

// The value of a line of /proc/PID/limits or /proc/PID/status, in its own unit; -1 where there is
// none, as for "unlimited".
int64_t value_of(pid_t process, const char* file, const std::string& name) {
  std::ifstream in(fmt::format("/proc/{}/{}", process, file));
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(name)) continue;
    const size_t digit = line.find_first_not_of(" \t", name.size());
    if (digit == std::string::npos || !std::isdigit(static_cast<unsigned char>(line[digit])))
      return -1;
    return std::stoll(line.substr(digit));
  }
  return -1;
}

pid_t first_child(pid_t process) {
  pid_t child = 0;
  std::ifstream(fmt::format("/proc/{0}/task/{0}/children", process)) >> child;
  return child;
}

// The roofline's process has what is free, the cell's what it is given.
TEST(AddressSpaceTest, EveryMeasuringProcessHasIt) {
  const Scratch scratch;
  const std::string out = (scratch.path() / "p.jsonl").string();
  Program program({"profile", "--lengths", "256", "--attentions", "standard", "--threads", "1",
                   "--passes", "1", "--seconds", "0.5", "--memory-limit", "1GiB", "--out", out});
  std::map<pid_t, std::pair<int64_t, int64_t>> seen;  // limit and size at first, by process
  while (!program.ended()) {
    if (const pid_t child = first_child(first_child(getpid())); child != 0) {
      const int64_t limit = value_of(child, "limits", "Max address space"),
                    size = value_of(child, "status", "VmSize:") * 1024;
      if (limit > 0 && size > 0) seen.try_emplace(child, limit, size);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(program.wait().status, 0);
  ASSERT_GE(seen.size(), 2u) << "more where others kept a cell waiting: it is measured again";
  const auto [limit, size] = std::ranges::min(std::views::values(seen));
  EXPECT_GT(limit, 1024 * kMiBytes);
  EXPECT_LE(limit - size, (1024 + 2 * 128) * kMiBytes) << "two arenas of the C library";
}

}  // namespace
}  // namespace lra
