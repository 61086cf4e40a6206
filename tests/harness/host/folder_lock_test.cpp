// The lock that a dead holder cannot keep.
#include "harness/host/folder_lock.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

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

// A group that shares a suite may all write there, where the umask lets them.
TEST(FolderLockTest, FollowsTheUmask) {
  const Scratch scratch;
  const mode_t before = umask(0002);
  { const host::FolderLock lock(scratch.path()); }
  umask(before);
  EXPECT_EQ(std::filesystem::status(scratch.path() / "lock").permissions(),
            std::filesystem::perms{0664});
}

TEST(FolderLockTest, OfAFileIsBesideItAndGoes) {
  const Scratch scratch;
  const std::filesystem::path file = scratch.path() / "p.jsonl",
                              lock_file = scratch.path() / ".p.jsonl.lock";
  {
    const host::FolderLock lock = host::FolderLock::of_file(file);
    EXPECT_TRUE(std::filesystem::exists(lock_file));
    EXPECT_EQ(error_text([&] { host::FolderLock::of_file(file); }),
              file.string() + " is being written by process " + std::to_string(getpid()) +
                  "; wait for it or choose another file");
    const std::filesystem::path link = scratch.path() / "link.jsonl";
    std::filesystem::create_symlink(file, link);
    EXPECT_THROW(host::FolderLock::of_file(link), Error) << "it is the same file";
    std::filesystem::remove(link);
    const host::FolderLock other = host::FolderLock::of_file(scratch.path() / "q.jsonl");
  }
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
  EXPECT_EQ(error_text([] { host::FolderLock::of_file("/no/such/p.jsonl"); }),
            "cannot write /no/such/p.jsonl: there is no folder /no/such");
}

// Who opened the file before its holder removed it must not hold a lock on a file that is gone.
TEST(FolderLockTest, IsNeverOnAFileThatIsGone) {
  const Scratch scratch;
  std::atomic<int> inside{0}, most{0};
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 300; ++i) {
        auto lock = host::FolderLock::try_lock(scratch.path(), "x");
        if (!lock) continue;
        const host::FolderLock removed = std::move(*lock).removed_at_end();
        most = std::max(most.load(), ++inside);
        --inside;
      }
    });
  }
  threads.clear();
  EXPECT_EQ(most, 1);
}

TEST(FolderLockTest, NamesTheHostOfAnother) {
  EXPECT_EQ((host::LockHolder{.host = "elsewhere", .pid = 7}.text()), "process 7 on elsewhere");
  EXPECT_EQ(host::LockHolder{}.text(), "another process");
}

}  // namespace
}  // namespace lra
