// Processes of our own: that they can be ended from their first moment on.
#include "harness/host/child.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <csignal>
#include <thread>

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
