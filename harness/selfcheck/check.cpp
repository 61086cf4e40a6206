#include "harness/selfcheck/check.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cmath>

#include "attention_variants/out_of_memory.h"
#include "harness/host/gpu.h"
#include "harness/host/runtime.h"
#include "harness/selfcheck/checks.h"

namespace lra::selfcheck {
namespace {

std::string failure_text(const BoundedError& error) {
  return fmt::format("{} is {}, at most {:.2g} is right", error.what,
                     error.value ? fmt::format("{:.2g}", *error.value) : "not finite", error.limit);
}

Finding finding_of(const std::exception& error) {
  if (const auto* end = dynamic_cast<const CheckEnd*>(&error)) return end->finding();
  return is_out_of_memory(error) ? Finding::oom : Finding::failed;
}

}  // namespace

void CheckReport::at_most(const std::string& what, double error, double limit) {
  const bool holds = error <= limit;
  BoundedError given{.what = what, .value = std::nullopt, .limit = limit};
  if (std::isfinite(error)) given.value = error;
  if (!worst_ || given.share() > worst_->share()) worst_ = given;
  holds_ = holds_ && holds;
}

std::span<const Check> machine_checks() {
  static const std::array checks = {
      Check{kRoofline, "large products and copies can be timed", measure_machine},
      Check{"dropout-bits", "the device drops what Philox's numbers say", check_dropout_bits},
  };
  return checks;
}

std::span<const Check> attention_checks() {
  static const std::array checks = {
      Check{"contract", "no clause of the contract is broken on the device", check_contract},
      Check{"parity-float64", "outputs and gradients are the reference's", check_parity_float64},
      Check{"parity-float32", "outputs and gradients are the reference's", check_parity_float32},
      Check{"parity-bfloat16", "the same under autocast", check_parity_bfloat16},
      Check{"dropout", "a model in training drops what the reference drops", check_dropout},
      Check{"step", "training steps lead where the reference's lead", check_steps},
      Check{"graph", "steps as a graph lead where single operators lead", check_graph},
      Check{"resume", "a run goes on from a CPU's checkpoint, and back there", check_resume},
      Check{"memory", "the variant's account is what the allocator counts", check_memory},
      Check{kSpeed, "nothing is faster than the machine", check_speed},
  };
  return checks;
}

void skip_without_own_kernels(torch::Device device) {
  if (device.is_cuda() && !host::has_own_gpu_kernels())
    throw CheckEnd(Finding::skipped, "without own kernels dropouts are LibTorch's");
}

Selfcheck run_check(const Check& check, const CheckSubject& subject) {
  using Clock = std::chrono::steady_clock;
  Selfcheck record{.check = check.name,
                   .device = subject.device.str(),
                   .threads = subject.threads,
                   .machine = host::machine_of(subject.device),
                   .software = host::software_json()};
  const auto begin = Clock::now();
  CheckReport report;
  try {
    if (subject.attention) record.attention = attention_record(*subject.attention);
    check.run(subject, report);
    if (!report.holds()) {
      record.finding = Finding::failed;
      record.reason = failure_text(*report.worst());
    }
  } catch (const std::exception& error) {
    record.finding = finding_of(error);
    record.reason = first_line(error);
  }
  record.error = report.worst();
  record.measures = report.measures;
  record.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return record;
}

AttentionRecord attention_record(const AttentionSpec& attention) {
  return {.name = attention.name,
          .label = attention.text(),
          .options = attention_entry(attention.name).effective_options(attention.options)};
}

}  // namespace lra::selfcheck
