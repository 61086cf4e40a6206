// Memory and time of an attention, and whether they can be true.
#include <fmt/format.h>

#include "harness/host/memory.h"
#include "harness/host/runtime.h"
#include "harness/measure/roofline.h"
#include "harness/profile/profiler.h"
#include "harness/selfcheck/checks.h"
#include "lra/data/task.h"

namespace lra::selfcheck {
namespace {

using profile::ProfileCell;

// Of the protocol's model; on a CPU a smaller batch, which takes parts of a second.
ProfileCell cell_of(const CheckSubject& subject) {
  const bool gpu = subject.device.is_cuda();
  return {.attention = *subject.attention,
          .length = gpu ? 2048 : 512,
          .batch = gpu ? 32 : 2,
          .heads = 2,
          .head_dim = 32,
          .task = tasks().front()->name};
}

// A profile of the cell that is ok; throws CheckEnd where it is not.
Profile profiled(const ProfileCell& cell, const CheckSubject& subject, double seconds) {
  Profile record = profile::profile_cell(cell, subject.device, subject.threads, /*memory_limit=*/0,
                                         {.seconds = seconds, .fewest = 1, .least_seconds = 0});
  switch (record.status) {
    case Status::ok:
      return record;
    case Status::unsupported:
      throw CheckEnd(Finding::skipped, record.reason);
    case Status::oom:
      throw CheckEnd(Finding::oom, record.reason);
    default:
      throw CheckEnd(Finding::failed, record.reason);
  }
}

// A GPU's own events are within the time of a call: a call that did not wait is shorter.
void hold_against_events(const char* what, const Profile& record, CheckReport& report) {
  constexpr double kMost = 1.1;
  const std::optional<double>& device_ms = record.time->passes.front().device_ms;
  if (!device_ms) return;
  report.at_most(fmt::format("{}: the GPU's own time, in parts of the call's", what),
                 *device_ms / record.time->median, kMost);
}

// Arithmetic of a forward pass in a measured time, against what the machine reaches: more than
// twice as much is a time that did not wait for the work. (The roofline is itself measured, and
// lower on a busy machine.)
void hold_against_roofline(const char* what, const Profile& record, const Roofline& roofline,
                           CheckReport& report) {
  constexpr double kMost = 2;
  if (!record.flops) return;
  const double gflops = *record.flops / record.time->median / 1e6;
  report.at_most(fmt::format("{}: GFLOP/s, in parts of the machine's", what),
                 gflops / roofline.gflops, kMost);
}

// The least time that the machine could take in parts of the measured.
std::optional<double> roofline_share(const Profile& record, const Roofline& roofline) {
  if (!record.flops || !record.least_bytes) return std::nullopt;
  return measure::least_ms(*record.flops, *record.least_bytes, roofline) / record.time->median;
}

void time_core(const CheckSubject& subject, ProfileCell cell, CheckReport& report) {
  const Profile inference = profiled(cell, subject, subject.seconds);
  report.measures.core_ms = inference.time->median;
  hold_against_events("attend()", inference, report);
  if (inference.flops) report.measures.gflops = *inference.flops / inference.time->median / 1e6;
  cell.mode = ProfileMode::training;
  report.measures.core_training_ms = profiled(cell, subject, subject.seconds).time->median;
  if (!subject.roofline) return;
  report.measures.roofline_share = roofline_share(inference, *subject.roofline);
  hold_against_roofline("attend()", inference, *subject.roofline, report);
}

}  // namespace

void check_memory(const CheckSubject& subject, CheckReport& report) {
  constexpr double kTolerance = 0.1;  // of the account
  ProfileCell cell = cell_of(subject);
  cell.length = 2048;
  cell.batch = 2;
  profiled(cell, subject, 0);  // what is made once and kept
  const int64_t before = host::live_bytes(subject.device);
  const Profile record = profiled(cell, subject, 0);
  const int64_t left = host::live_bytes(subject.device) - before;
  report.measures.length = cell.length;
  report.measures.batch = cell.batch;
  report.measures.counted_mib = record.memory->peak;
  report.measures.reserved_mib = record.memory->reserved;
  if (!record.memory->peak)
    throw CheckEnd(Finding::skipped, "this LibTorch cannot tell what a GPU holds");
  const double counted = *record.memory->peak;
  report.at_most("bytes left behind", static_cast<double>(left), 0);
  if (record.memory->reserved)
    report.at_most("counted memory, in parts of what is reserved",
                   counted / *record.memory->reserved, 1);
  if (!record.memory->analytic) return;
  report.measures.account_mib = record.memory->analytic;
  report.at_most("the account, in parts off the counted memory",
                 std::abs(*record.memory->analytic / counted - 1), kTolerance);
}

void check_speed(const CheckSubject& subject, CheckReport& report) {
  ProfileCell cell = cell_of(subject);
  report.measures.length = cell.length;
  report.measures.batch = cell.batch;
  try {
    time_core(subject, cell, report);
  } catch (const CheckEnd& end) {
    if (end.finding() != Finding::skipped) throw;  // it has no form without projections
  }
  cell.scope = ProfileScope::model;
  cell.mode = ProfileMode::training;
  const Profile step = profiled(cell, subject, subject.seconds);
  report.measures.step_ms = step.time->median;
  hold_against_events("a step", step, report);
  if (subject.roofline) hold_against_roofline("a step", step, *subject.roofline, report);
}

}  // namespace lra::selfcheck
