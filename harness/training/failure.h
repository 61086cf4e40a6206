// What ends a run otherwise than by its last step.
#pragma once

#include "harness/training/result.h"

namespace lra {

/// The code of the model failed, most often an attention of the user's own: it would fail again.
class ModelFailed : public Error {
 public:
  using Error::Error;
};

/// Whether an error thrown by a model's code will be thrown again.
bool is_failure_of_model(const std::exception& error);

/// Whether no model of this configuration can be made, as of an attention that takes no rotary
/// positions.
bool refuses_model(const Config& config);

/// Calls what runs the model. What that throws becomes ModelFailed, but for a request to stop, what
/// is an outcome of its own (memory, Unsupported) and what may be over the next time (a GPU's).
template <class Call>
auto run_model(const Processes* all, Call call) {
  try {
    return call();
  } catch (const std::exception& error) {
    if (all == nullptr && is_failure_of_model(error)) throw ModelFailed(first_line(error));
    throw;
  }
}

/// The outcome for the error being handled, thrown in the evaluation of a split or, where that is
/// empty, elsewhere; rethrows errors that are not an outcome of a run. `recorded`: as in
/// out_of_memory().
RunOutcome outcome_of(const std::exception& error, const TrainRequest& request, int64_t step,
                      const std::string& evaluated, bool recorded);

/// The end of what an interrupted run says.
inline constexpr const char* kContinue = "; continue with --resume";

/// Ends a run that was asked to stop: Interrupted, which says how it goes on.
[[noreturn]] void throw_stopped(int64_t step, int64_t steps);

/// The outcome of a run whose loss or gradient stopped being finite by step `step`.
RunOutcome diverged_by(int64_t step);

/// Of one whose best checkpoint, of step `step`, makes of the test split a loss that is not finite:
/// what it predicts there says nothing.
RunOutcome diverged_on_test(int64_t step);

}  // namespace lra
