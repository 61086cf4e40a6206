#include "harness/host/signals.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace lra {
namespace {

// What was interrupted may be about to read the errno of its system call. In a process of its own,
// whose standard error is no terminal, so that isatty() fails.
TEST(SignalHandler, LeavesErrnoAsItWas) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    int ends[2];
    if (pipe(ends) != 0 || dup2(ends[1], STDERR_FILENO) < 0) _exit(3);
    host::stop_at_signals();
    errno = EXDEV;
    raise(SIGINT);
    _exit(errno != EXDEV ? 1 : host::stop_requested() ? 0 : 2);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace lra
