// lra fidelity: how well approximations follow exact softmax attention.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/commands/commands.h"
#include "harness/fidelity/fidelity.h"
#include "harness/host/memory.h"
#include "harness/host/progress.h"
#include "harness/host/runtime.h"
#include "lra/config/once.h"
#include "lra/config/preset.h"

namespace lra {
namespace {

struct FidelityOptions {
  std::string attentions, run, data, device = "cpu", out;
  std::vector<int64_t> lengths;
  int64_t experiment = 0, head_dim = 0, trials = 0, threads = 0;
  uint64_t seed = 0;
  double seconds = 0.5;
  const CLI::App* command = nullptr;
};

// A length without a cell of experiment 3 is an error where that is asked for, and told where all
// are.
void check_asked_lengths(const FidelityOptions& options) {
  check_once("--length", options.lengths);
  constexpr int64_t kLeast = fidelity::kIterationLandmarks.front();
  if (options.experiment != 0 && options.experiment != 3) return;
  for (const int64_t length : options.lengths) {
    if (length >= kLeast) continue;
    if (options.experiment == 3) {
      throw UsageError(
          fmt::format("--length {}: experiment 3 has {} landmarks, so that lengths should be {} or "
                      "more",
                      length, fmt::join(fidelity::kIterationLandmarks, ", "), kLeast));
    }
    host::say(fmt::format("--length {}: experiment 3 has no cells below {}", length, kLeast));
  }
}

void run(const FidelityOptions& options) {
  check_jsonl_out(options.out);
  fidelity::FidelityRequest request{.lengths = options.lengths,
                                    .head_dim = options.head_dim,
                                    .trials = options.trials,
                                    .seed = options.seed,
                                    .run = options.run,
                                    .data = options.data,
                                    .seconds = options.seconds,
                                    .out = options.out};
  request.experiments = {options.experiment};
  if (options.experiment == 0) request.experiments = {1, 2, 3, 4};
  const bool trained = options.experiment == 0 || options.experiment >= 3;
  if (!options.run.empty() && !trained)
    throw UsageError(
        fmt::format("--run applies to experiments 3 and 4 alone; experiment {} has random inputs",
                    options.experiment));
  if (options.run.empty() && !options.data.empty())
    throw UsageError("--data says where the data of --run are; name a run");
  if (options.command->count("--seconds") > 0 && options.experiment != 0 && options.experiment != 4)
    throw UsageError(
        fmt::format("--seconds applies to experiment 4 alone, not {}", options.experiment));
  if (!options.attentions.empty()) {
    if (options.experiment != 0 && options.experiment != 4)
      throw UsageError(
          fmt::format("--attentions applies to experiment 4 alone, not {}", options.experiment));
    request.attentions = parse_attentions(options.attentions);
    check_once("--attentions", request.attentions);
    for (const AttentionSpec& spec : request.attentions)
      attention_entry(spec.name).effective_options(spec.options);
  }
  check_asked_lengths(options);
  begin_work_in_files();
  request.device = host::parse_device(options.device);
  request.threads = host::use_threads(options.threads);
  request.memory_limit = host::default_memory_limit();
  const fidelity::FidelityEnd end = fidelity::run_fidelity(request);
  host::say(fmt::format("{} cells in {}", end.cells, options.out));
  if (!end.crashed.empty()) {
    throw Error(
        fmt::format("{} cell(s) were not measured, and the same command tries them again: {}",
                    end.crashed.size(), fmt::join(end.crashed, "; ")));
  }
}

}  // namespace

void add_fidelity_command(CLI::App& app) {
  auto* command = app.add_subcommand(
      "fidelity", "Measure how well approximations follow exact softmax attention");
  auto options = std::make_shared<FidelityOptions>();
  options->command = command;
  command
      ->add_option("--experiment", options->experiment,
                   "1 landmarks on raw scores, 2 landmarks on softmax attention, 3 iterations of "
                   "the inverse, 4 every approximation by its budget; default: all")
      ->check(CLI::Range(1, 4));
  command
      ->add_option("--length", options->lengths,
                   "Comma list; default: 50, 256, 1024, and 512 to 8192, by experiment; of "
                   "experiment 3 at least 32")
      ->delimiter(',')
      ->transform(length_text())
      ->check(CLI::Range(int64_t{1}, kLongestLength));
  command
      ->add_option("--head-dim", options->head_dim,
                   "Of random inputs; default: 10 in experiment 1, else 32")
      ->check(CLI::Range(1, 1 << 12));
  command
      ->add_option("--trials", options->trials,
                   "Samples a cell; default: 100, 10, 10, 5, by experiment")
      ->check(CLI::Range(1, 1 << 20));
  command->add_option("--seed", options->seed, "Of random inputs and of the attentions' tables")
      ->check(seed_text())
      ->capture_default_str();
  command
      ->add_option("--attentions", options->attentions,
                   "Of experiment 4, comma list; default: all that have a budget, approach "
                   "softmax or are it")
      ->check(some_name());
  command->add_option("--run", options->run,
                      "Run folder: experiments 3 and 4 also on what its layers see in dev data");
  command->add_option("--data", options->data,
                      "Folder of lra data prepare --out; default: the run's own");
  command
      ->add_option("--seconds", options->seconds,
                   "Most time for the timing samples of a cell of experiment 4")
      ->check(number_in(0.001, 1e6))
      ->capture_default_str();
  add_device_option(*command, options->device);
  add_threads_option(*command, options->threads);
  command->add_option("--out", options->out, "JSONL file; cells that it holds already are kept")
      ->required();
  command->callback([options] { run(*options); });
}

}  // namespace lra
