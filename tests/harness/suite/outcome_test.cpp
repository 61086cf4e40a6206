// What the end of a process means for its cell.
#include "harness/suite/outcome.h"

#include <gtest/gtest.h>

#include <csignal>

#include "attention_variants/base/append_file.h"
#include "attention_variants/base/files.h"
#include "harness/suite/cell.h"
#include "harness/suite/job.h"
#include "harness/suite/queue.h"
#include "harness/training/run_folder.h"
#include "tests/results/examples.h"
#include "tests/support/scratch.h"

namespace lra::suite {
namespace {

using Next = Outcome::Next;

Outcome after(const EndOfTry& end) { return outcome_of(end, /*most_tries=*/3, /*timeout=*/5); }

TEST(SuiteOutcome, AResultStandsHoweverItsProcessEnded) {
  const Outcome outcome = after({.child = {.exit = 1}, .status = Status::diverged, .tries = 2});
  EXPECT_EQ(outcome.next, Next::done);
  EXPECT_EQ(outcome.status, Status::diverged);
  EXPECT_EQ(outcome.ended, "diverged");
}

TEST(SuiteOutcome, TimeAndMemoryEndACell) {
  const Outcome late = after({.child = {.signal = SIGKILL, .timed_out = true}});
  EXPECT_EQ(late.next, Next::fail);
  EXPECT_EQ(late.status, Status::timeout);
  EXPECT_EQ(late.reason, "took longer than 5 s");
  const Outcome large = after({.child = {.signal = SIGKILL, .out_of_memory = true}});
  EXPECT_EQ(large.next, Next::fail);
  EXPECT_EQ(large.status, Status::oom);
  EXPECT_EQ(large.reason, "out of memory: killed by the kernel");
}

TEST(SuiteOutcome, WhatWasAskedToStopDidNotFail) {
  for (const host::ChildStatus& child :
       {host::ChildStatus{.exit = 130}, host::ChildStatus{.exit = 143},
        host::ChildStatus{.signal = SIGTERM}, host::ChildStatus{.signal = SIGINT},
        host::ChildStatus{.exit = 129}, host::ChildStatus{.signal = SIGHUP}}) {
    for (const bool stopping : {true, false}) {
      const Outcome outcome =
          after({.child = child, .new_checkpoint = !stopping, .stopping = stopping, .tries = 2});
      EXPECT_EQ(outcome.next, Next::leave);
      EXPECT_EQ(outcome.ended, "asked to stop");
      EXPECT_EQ(outcome.tries, 2);
    }
    // Else it would be started for ever where something keeps ending it.
    EXPECT_EQ(after({.child = child}).next, Next::retry);
    EXPECT_EQ(after({.child = child, .tries = 2}).next, Next::fail);
  }
  // Nor what died while the runner stops.
  const Outcome outcome = after({.child = {.exit = 1}, .stopping = true, .tries = 2});
  EXPECT_EQ(outcome.next, Next::leave);
  EXPECT_EQ(outcome.ended, "exit status 1");
}

TEST(SuiteOutcome, DeathsWithoutACheckpointAreCounted) {
  const EndOfTry death{.child = {.signal = SIGSEGV}, .last_line = "lra: why", .tries = 1};
  const Outcome second = after(death);
  EXPECT_EQ(second.next, Next::retry);
  EXPECT_EQ(second.ended, "ended by signal 11: lra: why");
  EXPECT_EQ(second.tries, 2);
  EndOfTry last = death;
  last.tries = 2;
  const Outcome third = after(last);
  EXPECT_EQ(third.next, Next::fail);
  EXPECT_EQ(third.status, Status::crash);
  EXPECT_EQ(third.reason,
            "3 tries without a new checkpoint; the last: ended by signal 11: lra: why");
  last.new_checkpoint = true;
  EXPECT_EQ(after(last).next, Next::retry);
  EXPECT_EQ(after(last).tries, 1) << "it got further";
  last.tries = 0;
  EXPECT_EQ(outcome_of(last, /*most_tries=*/1, /*timeout=*/5).next, Next::retry);
}

TEST(SuiteOutcome, AWrongJobIsNotTriedAgain) {
  const Outcome outcome = after({.child = {.exit = 2}, .last_line = "lra: unknown task 'x'"});
  EXPECT_EQ(outcome.next, Next::fail);
  EXPECT_EQ(outcome.status, Status::crash);
  EXPECT_EQ(outcome.reason, "exit status 2: lra: unknown task 'x'");
}

TEST(SuiteOutcome, WhatAnAttentionRefusesIsUnsupported) {
  const Outcome outcome = after({.child = {.exit = kRefused}, .last_line = "lra: takes no rotary"});
  EXPECT_EQ(outcome.next, Next::fail);
  EXPECT_EQ(outcome.status, Status::unsupported);
  EXPECT_EQ(outcome.reason, "takes no rotary");
}

// Four cells at a time have less memory each than one.
TEST(SuiteOutcome, WhatDidNotFitBesideOthersIsTriedAloneAgain) {
  const Scratch scratch;
  Result result = example_result();
  result.status = Status::oom;
  result.config = json::object();
  write_json(scratch.path() / kResultFile, make_result(result));
  append_try(scratch.path(), {.sharing = 4, .seconds = 60, .ended = "oom"});
  Suite suite;
  suite.cells.push_back({.config = {}, .sets = {}, .run = scratch.path()});
  const auto left = [&](int64_t sharing) {
    CellQueue queue(suite, {}, /*timeout=*/0, sharing);
    queue.look(0);
    return queue.left();
  };
  EXPECT_EQ(left(4), 0u);
  EXPECT_EQ(left(2), 1u);
  EXPECT_EQ(open_cells(suite), std::vector<size_t>{0}) << "plan and submit say so, too";
  EXPECT_TRUE(may_go_again(scratch.path(), Status::oom, /*timeout=*/61, /*sharing=*/1));
  EXPECT_FALSE(may_go_again(scratch.path(), Status::oom, /*timeout=*/60, /*sharing=*/1))
      << "its time is over";
  EXPECT_TRUE(may_go_again(scratch.path(), Status::crash, /*timeout=*/61, /*sharing=*/1));
  EXPECT_FALSE(may_go_again(scratch.path(), Status::crash, /*timeout=*/60, /*sharing=*/1))
      << "its reason would be lost";
  append_try(scratch.path(), {.sharing = 2, .seconds = 60, .ended = "oom"});
  EXPECT_EQ(left(2), 0u) << "it had as much";
}

TEST(SuiteOutcome, ALineThatACrashCutLosesNoTryBehindIt) {
  const Scratch scratch;
  append_try(scratch.path(), {.seconds = 20});
  AppendFile(scratch.path() / kTriesFile).append("{\"begin\":");
  append_try(scratch.path(), {.seconds = 40});
  EXPECT_EQ(attempt_seconds(scratch.path()), 60);
}

// Or a cell that is killed again and again in its pretraining would never get further.
TEST(SuiteOutcome, ACheckpointOfThePretrainingIsOneOfTheCell) {
  const Scratch scratch;
  const std::filesystem::path &run = scratch.path(), first = run / kPretrainingFolder;
  std::filesystem::create_directories(first);
  EXPECT_EQ(stamp_of_checkpoint(run), std::nullopt);
  write_file(first / kLastCheckpoint, "1");
  const auto early = stamp_of_checkpoint(run);
  ASSERT_TRUE(early.has_value());
  write_file(first / kLastCheckpoint, "12");
  const auto later = stamp_of_checkpoint(run);
  EXPECT_NE(later, early);
  write_file(run / kLastCheckpoint, "123");
  const auto own = stamp_of_checkpoint(run);
  EXPECT_NE(own, later);
  write_file(first / kLastCheckpoint, "1234");
  EXPECT_EQ(stamp_of_checkpoint(run), own);
}

// A run that goes on with its pretraining holds the lock of that alone.
TEST(SuiteOutcome, AProcessInThePretrainingHoldsTheCell) {
  const Scratch scratch;
  const std::filesystem::path &run = scratch.path(), first = run / kPretrainingFolder;
  EXPECT_FALSE(cell_holder(run));
  std::filesystem::create_directories(first);
  {
    const host::FolderLock lock(first);
    EXPECT_TRUE(training_holder(run));
    EXPECT_TRUE(cell_holder(run));
  }
  EXPECT_FALSE(training_holder(run));
}

}  // namespace
}  // namespace lra::suite
