// Processes of our own: that they can be ended from their first moment on.
#include "harness/host/child.h"

#include <gtest/gtest.h>
#include <pty.h>
#include <signal.h>
#include <termios.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <string>
#include <thread>

#include "tests/support/scratch.h"
#include "tests/support/terminal.h"

namespace lra::host {
namespace {

// A handler as the program has one; a new process has it until exec.
TEST(Child, IsEndedByASignalBeforeItsProgramRuns) {
  const auto before = std::signal(SIGTERM, [](int) {});
  for (int i = 0; i < 20 && !HasFailure(); ++i) {
    Child child({"30"}, {.program = "sleep"});
    kill(child.pid(), SIGTERM);
    std::optional<ChildStatus> ended;
    for (int wait = 0; wait < 1000 && !ended; ++wait) {
      ended = child.poll();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    ASSERT_TRUE(ended) << "it sleeps on";
    EXPECT_EQ(ended->signal, SIGTERM);
  }
  std::signal(SIGTERM, before);
}

// A terminal may be set to stop what prints from the background (stty tostop).
TEST(Child, MayPrintToItsTerminalWhateverThatIsSetTo) {
  int terminal = -1;
  const pid_t parent = forkpty(&terminal, nullptr, nullptr, nullptr);
  if (parent == 0) {
    alarm(20);  // a process that is stopped is waited for for ever
    termios settings{};
    tcgetattr(STDOUT_FILENO, &settings);
    settings.c_lflag |= TOSTOP;
    tcsetattr(STDOUT_FILENO, TCSANOW, &settings);
    _exit(run_child({"-c", "echo printed"}, {.program = "sh"}).exit);
  }
  if (parent < 0) GTEST_SKIP() << "no terminal can be made here";
  const auto [text, status] = read_terminal(terminal, parent);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(text, "printed\r\n");
}

// With time to write a checkpoint, where it has any.
TEST(Child, IsAskedToStopBeforeItIsKilledWithItsRunner) {
  const Scratch scratch;
  const std::filesystem::path ready = scratch.path() / "ready", saved = scratch.path() / "saved";
  const std::string script = "trap 'sleep 0.2; echo > " + saved.string() + "; exit' TERM; echo > " +
                             ready.string() + "; while :; do sleep 0.05; done";
  for (const double grace : {10.0, 0.0}) {
    std::filesystem::remove(ready);
    std::filesystem::remove(saved);
    {
      const Child child({"-c", script}, {.grace = grace, .program = "sh"});
      while (!std::filesystem::exists(ready))
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    EXPECT_EQ(std::filesystem::exists(saved), grace > 0);
  }
}

// The kernel counts what it kills before that has ended; what it killed long before is not the
// reason of an end by SIGKILL.
TEST(RecentKills, AreThoseOfTheLastMinuteAtLeast) {
  RecentKills kills(3, 0);
  EXPECT_FALSE(kills.any(3));
  EXPECT_TRUE(kills.any(4));
  EXPECT_FALSE(kills.due(59));
  ASSERT_TRUE(kills.due(60));
  kills.look(4, 60);  // killed at some time up to now
  EXPECT_TRUE(kills.any(4)) << "its process may be ending still";
  EXPECT_FALSE(kills.due(119));
  ASSERT_TRUE(kills.due(120));
  kills.look(4, 120);
  EXPECT_FALSE(kills.any(4));
  EXPECT_TRUE(kills.any(5));
}

}  // namespace
}  // namespace lra::host
