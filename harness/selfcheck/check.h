// What a self-check tries: the subject, what a check reports, and the list of checks.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "attention_variants/base/error.h"
#include "attention_variants/registry.h"
#include "attention_variants/torch.h"
#include "results/records/profile.h"
#include "results/selfcheck/record.h"

namespace lra::selfcheck {

/// What is checked, and where.
struct CheckSubject {
  std::optional<AttentionSpec> attention;  // none: the machine
  torch::Device device = torch::kCPU;
  int64_t threads = 1;
  double seconds = 0.1;              // of each measurement
  std::filesystem::path folder;      // for files of a check
  std::optional<Roofline> roofline;  // of this device, where it was measured
};

/// Ends a check that finds nothing to try here, or whose work ended otherwise than well.
class CheckEnd : public Error {
 public:
  CheckEnd(Finding finding, const std::string& reason) : Error(reason), finding_(finding) {}
  Finding finding() const { return finding_; }

 private:
  Finding finding_;
};

/// Of checks of dropouts: ends one as skipped on a GPU without own kernels, where they draw
/// LibTorch's numbers.
void skip_without_own_kernels(torch::Device device);

/// Collects what a check finds: errors against their limits, and numbers.
class CheckReport {
 public:
  /// `error` should be at most `limit`; NaN is not.
  void at_most(const std::string& what, double error, double limit);

  SelfcheckMeasures measures;

  const std::optional<BoundedError>& worst() const { return worst_; }
  bool holds() const { return holds_; }

 private:
  std::optional<BoundedError> worst_;
  bool holds_ = true;
};

constexpr const char *kRoofline = "roofline", *kSpeed = "speed";  // which needs the other

struct Check {
  std::string name;     // "parity-float32"
  std::string promise;  // one sentence
  void (*run)(const CheckSubject&, CheckReport&);
};

/// Of the machine, without an attention, and of each attention, in the order in which they run.
std::span<const Check> machine_checks();
std::span<const Check> attention_checks();

/// The record of a check, whatever it ends in.
Selfcheck run_check(const Check& check, const CheckSubject& subject);

}  // namespace lra::selfcheck
