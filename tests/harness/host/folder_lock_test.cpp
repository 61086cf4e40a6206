// The lock that a dead holder cannot keep.
#include "harness/host/folder_lock.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/scratch.h"

namespace lra {
namespace {

// A process that takes the lock, says so and waits to be killed.
pid_t hold(const std::filesystem::path& folder) {
  int ready[2];
  if (pipe(ready) != 0) return -1;
  const pid_t child = fork();
  if (child == 0) {
    const host::FolderLock lock(folder);
    const char byte = 1;
    if (write(ready[1], &byte, 1) != 1) _exit(1);
    for (;;) pause();
  }
  char byte = 0;
  EXPECT_EQ(read(ready[0], &byte, 1), 1);
  close(ready[0]);
  close(ready[1]);
  return child;
}

TEST(FolderLockTest, DiesWithItsHolderAndNamesIt) {
  const Scratch scratch;
  EXPECT_FALSE(host::lock_holder(scratch.path())) << "never taken";
  const pid_t child = hold(scratch.path());
  ASSERT_GT(child, 0);
  const auto holder = host::lock_holder(scratch.path());
  ASSERT_TRUE(holder);
  EXPECT_EQ(holder->pid, child);
  EXPECT_EQ(holder->host, host::host_name());
  EXPECT_EQ(holder->text(), "process " + std::to_string(child));
  EXPECT_FALSE(host::FolderLock::try_lock(scratch.path()));
  EXPECT_NE(error_text([&] {
              host::FolderLock lock(scratch.path());
            }).find("is in use by process " + std::to_string(child)),
            std::string::npos);

  // Stopped is not dead: the lock stays.
  kill(child, SIGSTOP);
  EXPECT_FALSE(host::FolderLock::try_lock(scratch.path()));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(host::lock_holder(scratch.path()));
  EXPECT_TRUE(host::FolderLock::try_lock(scratch.path()));
}

TEST(FolderLockTest, HoldsWithinAProcessAndLookingTakesNothing) {
  const Scratch scratch;
  auto lock = host::FolderLock::try_lock(scratch.path());
  ASSERT_TRUE(lock);
  EXPECT_FALSE(host::FolderLock::try_lock(scratch.path())) << "not by the process, by its holder";
  EXPECT_TRUE(host::FolderLock::try_lock(scratch.path(), "other"));
  {
    const host::FolderLock moved = std::move(*lock);
    lock.reset();
    EXPECT_TRUE(host::lock_holder(scratch.path()));
  }
  EXPECT_FALSE(host::lock_holder(scratch.path()));
  EXPECT_FALSE(host::lock_holder(scratch.path() / "no" / "such"));
}

TEST(FolderLockTest, NamesTheHostOfAnother) {
  EXPECT_EQ((host::LockHolder{.host = "elsewhere", .pid = 7}.text()), "process 7 on elsewhere");
  EXPECT_EQ(host::LockHolder{}.text(), "another process");
}

}  // namespace
}  // namespace lra
