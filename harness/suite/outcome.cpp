#include "harness/suite/outcome.h"

#include <fmt/format.h>

#include <csignal>

#include "harness/suite/job.h"

namespace lra::suite {
namespace {

// A process whose command line is wrong: retrying cannot help.
constexpr int kUsage = 2;
// Before an error.
constexpr std::string_view kSaid = "lra: ";
// As a shell, and Slurm's scripts, know a stop by request.
constexpr bool is_stop_by_request(int exit) {
  return exit == 128 + SIGINT || exit == 128 + SIGTERM || exit == 128 + SIGHUP;
}

}  // namespace

std::string timeout_reason(double timeout) {
  return fmt::format("took longer than {:g} s", timeout);
}

Outcome outcome_of(const EndOfTry& end, int64_t most_tries, double timeout) {
  const host::ChildStatus& child = end.child;
  using Next = Outcome::Next;
  if (end.status) {
    return {.next = Next::done,
            .status = *end.status,
            .ended = to_string(*end.status),
            .tries = end.tries};
  }
  if (child.timed_out) {
    return {.next = Next::fail,
            .status = Status::timeout,
            .reason = timeout_reason(timeout),
            .ended = "timeout",
            .tries = end.tries};
  }
  if (child.exit == kRefused) {
    return {.next = Next::fail,
            .status = Status::unsupported,
            .reason = end.last_line.substr(end.last_line.starts_with(kSaid) ? kSaid.size() : 0),
            .ended = "unsupported",
            .tries = end.tries};
  }
  if (child.out_of_memory) {
    return {.next = Next::fail,
            .status = Status::oom,
            .reason = host::kKilledForMemory,
            .ended = "oom",
            .tries = end.tries};
  }
  const bool asked = is_stop_by_request(child.exit) || is_stop_by_request(128 + child.signal);
  // Without a checkpoint, by somebody who does not stop the runner, it is a death like others.
  if (asked && (end.stopping || end.new_checkpoint))
    return {.next = Next::leave, .ended = "asked to stop", .tries = end.tries};
  Outcome outcome{.next = Next::leave, .ended = child.text(end.last_line), .tries = end.tries};
  if (end.stopping) return outcome;
  // As long as a run gets further between two deaths, it will end.
  outcome.tries = end.new_checkpoint ? 1 : end.tries + 1;
  outcome.next = Next::retry;
  if (child.exit == kUsage || (outcome.tries >= most_tries && !end.new_checkpoint)) {
    outcome.next = Next::fail;
    outcome.status = Status::crash;
    outcome.reason = outcome.tries > 1
                         ? fmt::format("{} tries without a new checkpoint; the last: {}",
                                       outcome.tries, outcome.ended)
                         : outcome.ended;
  }
  return outcome;
}

}  // namespace lra::suite
