#include "harness/suite/job.h"

#include <fmt/format.h>

#include <fstream>

#include "attention_variants/base/files.h"
#include "attention_variants/base/json_text.h"
#include "harness/host/progress.h"
#include "harness/host/runtime.h"
#include "harness/host/signals.h"
#include "harness/training/failure.h"
#include "harness/training/resume.h"
#include "harness/training/train.h"

namespace lra::suite {
namespace {

// Throws where the attention's file is no more what the job's configuration says.
void check_file(const TrainJob& job) {
  const json options = job.configuration.value(json::json_pointer("/attention/options"), json());
  if (!job.kept_file.empty() || !options.is_object()) return;
  if (file_state(options).value_or(FileState::same) == FileState::same) return;
  throw Error(
      fmt::format("{} since the suite was planned: put back what it was, or call the suite again, "
                  "which goes on with what its folder keeps",
                  changed_text(options)));
}

Config config_of(const TrainJob& job) {
  return run_config(load_protocol(job.protocol), job.task,
                    {.name = job.attention, .options = job.attention_options}, job.sets, job.seed,
                    job.dtype, job.kept_file);
}

void run_job(const TrainJob& job) {
  TrainRequest request{.config = config_of(job),
                       .run = job.run,
                       .data = job.data,
                       .device = host::parse_device(job.device),
                       .sharing = job.sharing,
                       .memory_limit = job.memory_limit,
                       .resume = Resume::yes,
                       .check = job.check};
  const std::string changed = config_differences(job.configuration, request.config.to_json());
  if (!changed.empty()) {
    check_file(job);
    throw Error(fmt::format(
        "protocol {} is no more what it was when the suite was planned ({}): give it its values "
        "back, or choose another --out folder",
        job.protocol, changed));
  }
  request.threads = host::use_threads(job.threads);
  const Status status = train(request);
  if (status != Status::ok)
    throw Error(fmt::format("the run in {} ended as {}; see its result.json", job.run, status));
}

}  // namespace

std::vector<std::string> child_words(const TrainJob& job) {
  return {"suite", "child", write_fields(job).dump()};
}

void run_train_job(const std::string& word) {
  TrainJob job;
  read_fields(parse_json(word, "a training job"), job, "a training job");
  host::set_quiet(job.quiet);
  try {
    run_job(job);
  } catch (const host::Interrupted& error) {
    // How to go on is for the parent to say.
    const std::string text = error.what();
    throw host::Interrupted(text.substr(0, text.find(kContinue)), error.signal());
  } catch (const std::exception& error) {
    if (!job.error_log.empty())
      std::ofstream(job.error_log, std::ios::app) << "lra: " << first_line(error) << '\n';
    if (dynamic_cast<const UsageError*>(&error) != nullptr && refuses_model(config_of(job))) {
      host::say_error(first_line(error));
      host::end_process(kRefused);
    }
    throw;
  }
}

}  // namespace lra::suite
