#include "harness/training/failure.h"

#include <fmt/format.h>

#include <system_error>

#include "attention_variants/out_of_memory.h"
#include "harness/host/signals.h"
#include "harness/training/console.h"
#include "lra/data/task.h"
#include "lra/model/model.h"

namespace lra {

bool is_failure_of_model(const std::exception& error) {
  return dynamic_cast<const host::Interrupted*>(&error) == nullptr &&
         dynamic_cast<const Unsupported*>(&error) == nullptr &&
         // Of the system: a file that cannot be read, a thread that cannot be started.
         dynamic_cast<const std::system_error*>(&error) == nullptr && !is_out_of_memory(error) &&
         std::string_view(error.what()).find("CUDA error") == std::string_view::npos;
}

bool refuses_model(const Config& config) {
  try {
    Model(task(config.task, config.settings.input.reading()), config);
    return false;
  } catch (const UsageError&) {
    return true;
  } catch (const Unsupported&) {
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

RunOutcome outcome_of(const std::exception& error, const TrainRequest& request, int64_t step,
                      const std::string& evaluated, bool recorded) {
  if (dynamic_cast<const Unsupported*>(&error) != nullptr)
    return {.status = Status::unsupported, .reason = first_line(error)};
  if (dynamic_cast<const ModelFailed*>(&error) != nullptr)
    return {.status = Status::crash,
            .reason = fmt::format("{} (step {})", first_line(error), step)};
  // What other processes do not know of they do not end with.
  if (!is_out_of_memory(error) || (request.processes != nullptr && !request.processes->agreed()))
    throw;
  RunOutcome outcome{.status = Status::oom,
                     .reason = out_of_memory(request.config.settings, step, evaluated, recorded)};
  if (request.processes != nullptr) outcome.reason += fmt::format(" ({})", first_line(error));
  return outcome;
}

void throw_stopped(int64_t step, int64_t steps) {
  throw host::Interrupted(fmt::format("stopped at step {} of {}{}", step, steps, kContinue));
}

RunOutcome diverged_by(int64_t step) {
  RunOutcome outcome;
  outcome.status = Status::diverged;
  outcome.reason = fmt::format("the loss or a gradient was not finite by step {}", step);
  return outcome;
}

RunOutcome diverged_on_test(int64_t step) {
  RunOutcome outcome;
  outcome.status = Status::diverged;
  outcome.reason =
      fmt::format("the loss on test was not finite, by the best checkpoint, of step {}", step);
  return outcome;
}

}  // namespace lra
