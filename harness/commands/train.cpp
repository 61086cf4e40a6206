// lra train and lra evaluate.
#include <fmt/format.h>

#include <algorithm>

#include "attention_variants/base/files.h"
#include "attention_variants/base/text.h"
#include "attention_variants/python_host.h"
#include "harness/commands/commands.h"
#include "harness/host/progress.h"
#include "harness/host/runtime.h"
#include "harness/host/signals.h"
#include "harness/processes/processes.h"
#include "harness/training/open_run.h"
#include "harness/training/result.h"
#include "harness/training/resume.h"
#include "harness/training/run_folder.h"
#include "harness/training/token_evaluation.h"
#include "harness/training/train.h"
#include "harness/training/train_setup.h"

namespace lra {
namespace {

struct TrainOptions {
  std::string task, attention, protocol = kDefaultProtocol, run, data = "data", device = "cpu",
                               dtype = "float32", memory_limit, event_files, objective, init_from;
  std::vector<std::string> sets, options;
  uint64_t seed = 0;
  int64_t threads = 0;
  bool resume = false, overwrite = false;
  ContractCheck check = ContractCheck::own;
};

// Float sums depend on the number of threads: a resumed run keeps the number it had unless another
// is given, or another number of processes shares the host's.
int64_t resumed_threads(const TrainOptions& options, const Processes* processes) {
  if (!options.resume) return options.threads;
  const RunSetting setting = read_run_setting(begun_folder(options.run));
  const int64_t one_of = processes == nullptr ? 1 : processes->size(),
                had_processes = setting.processes.value_or(1);
  const bool says = is_rank_zero(processes);
  if (setting.threads && had_processes != one_of) {
    if (says) {
      host::say(fmt::format("the run in {} had {} and goes on with {}: not to the same bits",
                            options.run, count_text(had_processes, "process"), one_of));
    }
    return options.threads;
  }
  const std::optional<int64_t>& had = setting.threads;
  if (!had || *had < 1) return options.threads;
  if (options.threads == 0) return *had;
  if (says && options.threads != *had) {
    host::say(fmt::format("the run in {} had {} and goes on with {}: not to the same bits",
                          options.run, count_text(*had, "thread"), options.threads));
  }
  return options.threads;
}

// A resumed run uses the kernels of this machine, whose rounding depends on their instruction set.
void say_other_kernels(const std::string& run) {
  const json had = read_run_setting(begun_folder(run)).software, now = host::software_json();
  for (const auto& [part, whose] :
       {std::pair("kernels", "the kernels"), {"cpu_capability", "LibTorch's kernels"}}) {
    if (!had.contains(part) || had[part] == now[part]) continue;
    host::say(
        fmt::format("the run in {} had {} of {} and goes on with those of {}: not to the same "
                    "bits",
                    run, whose, text_from_value(had[part]), text_from_value(now[part])));
  }
}

// A resumed run whose attention's file has changed, or is gone, goes on with the one that its
// folder keeps, where that is the file that it began with.
Config asked_config(const TrainOptions& options, const Processes* processes) {
  const AttentionSpec attention = attention_given(options.attention, options.options);
  std::vector<std::string> sets = options.sets;
  if (!options.objective.empty()) sets.push_back("training.objective=" + options.objective);
  const std::filesystem::path kept =
      options.resume ? kept_for(options.run, attention) : std::filesystem::path();
  Config config = run_config(load_protocol(options.protocol), options.task, attention, sets,
                             options.seed, options.dtype, kept);
  if (!kept.empty() && is_rank_zero(processes)) {
    json named = config.attention_options;
    named["file"] = config.named_file;
    host::say(fmt::format("{}; the run in {} goes on with the file that it keeps, {}",
                          changed_text(named), options.run, kept.string()));
  }
  return config;
}

// What would be without effect.
void check_used(const TrainOptions& options) {
  if (!options.memory_limit.empty() && options.device != "cpu")
    throw UsageError("--memory-limit applies to CPUs alone: with --device " + options.device +
                     " leave it out");
  const auto sets_objective = [](const std::string& word) {
    return word_sets(word, "training.objective");
  };
  if (!options.objective.empty() && std::ranges::any_of(options.sets, sets_objective))
    throw UsageError("--objective is short for --set training.objective: give one of them");
  for (const char* start : {"model.embedding_sd", "model.position_sd"}) {
    const auto sets = [&](const std::string& word) { return word_sets(word, start); };
    if (!options.init_from.empty() && std::ranges::any_of(options.sets, sets)) {
      throw UsageError(fmt::format(
          "{} has no effect with --init-from, which replaces those weights; leave it out", start));
    }
  }
}

void run_train(const TrainOptions& options, Processes* processes) {
  TrainRequest request;
  run_collective(processes, [&] {
    check_used(options);
    request.config = asked_config(options, processes);
    request.device = own_device(options.device, processes);
    if (!options.memory_limit.empty())
      request.memory_limit = parse_bytes("--memory-limit", options.memory_limit);
  });
  int64_t threads = 0;
  run_collective(processes, [&] { threads = resumed_threads(options, processes); });
  if (processes != nullptr) threads = processes->gather(threads).front();
  if (options.resume && is_rank_zero(processes)) say_other_kernels(options.run);
  request.threads = use_threads(threads, processes);
  request.run = options.run;
  request.data = options.data;
  request.init_from = options.init_from;
  request.resume = options.resume ? Resume::yes : options.overwrite ? Resume::over : Resume::no;
  request.check = options.check;
  request.event_files = options.event_files;
  request.processes = processes;
  on_rank_zero(processes, [&] { say_cut_samples(request); });
  const Status status = train(request);
  if (status == Status::ok) return;
  run_collective(processes, [&] {
    // Otherwise the reason stands on the line above.
    const std::string reason =
        host::is_quiet()
            ? ": " + read_result(std::filesystem::path(options.run) / kResultFile).reason
            : "";
    throw Error(fmt::format("the run in {} ended as {}{}; see its result.json", options.run, status,
                            reason));
  });
}

struct EvaluateOptions {
  std::string run, split = "test", checkpoint = "best", data, device = "cpu";
  int64_t threads = 0;
  bool as_json = false;
};

// What a split is in this run, where it is not the one of that name; "" where it is.
std::string place_of(const std::string& split, const Config& config) {
  if (config.settings.evaluation.dev == DevSplit::dev) return "";
  if (split == "dev") return "dev is the test split in this run (evaluation.dev=test)";
  if (split == "train")
    return "train alone: this run trained on the dev split too (evaluation.dev=test)";
  return "";
}

// Each process counts its own passes, so that what is drawn in one would depend on their number.
void check_repeats(const Config& config, const Processes* processes) {
  if (processes == nullptr || processes->size() == 1) return;
  const std::string drawing = drawing_in_passes(config.attention.name, config.attention_options);
  if (drawing.empty()) return;
  throw UsageError(fmt::format(
      "attention {} with {} draws anew in every pass: evaluate with one process, not {}",
      config.attention.name, drawing, processes->size()));
}

void run_evaluate(const EvaluateOptions& options, Processes* processes) {
  torch::Device device = torch::kCPU;
  run_collective(processes, [&] { device = own_device(options.device, processes); });
  use_threads(options.threads, processes);
  std::optional<OpenedRun> opened;
  run_collective(processes, [&] {
    opened.emplace(
        open_run(options.run, options.data, *parse_name<CheckpointKind>(options.checkpoint), device,
                 options.split == "test" ? OpenedSplits::all : OpenedSplits::all_but_test));
  });
  const OpenedRun& run = *opened;
  check_repeats(run.config, processes);
  seed_generators(run.config.seed);  // of attentions that draw in evaluation
  const Evaluation evaluation =
      evaluate(*run.model, evaluation_split(run.data, run.config, options.split), run.config,
               device, options.split, processes);
  if (!is_rank_zero(processes)) return;
  const std::string where = place_of(options.split, run.config);
  if (!where.empty()) host::say(where);
  const Manifest& manifest = run.data.manifest();
  if (const std::string kind = data_kind(manifest); !kind.empty()) host::say("data: " + kind);
  const Accuracy accuracy = accuracy_of(evaluation, run.config.settings.input.length);
  const std::string metric = metric_of(run.config.settings.training.objective);
  if (options.as_json) {
    json record = make_accuracy(accuracy);
    record["split"] = options.split;
    record["checkpoint"] = options.checkpoint;
    record["step"] = run.at.step;
    record["loss"] = evaluation.loss;
    record["data"] = {{"source", manifest.source}, {"synthetic", manifest.synthetic}};
    if (!metric.empty()) record["metric"] = metric;
    print_json(record);
    return;
  }
  fmt::print(
      "{} {} {:.2f}% ({}/{}, 95% interval {:.2f} to {:.2f}), loss {:.4f}, checkpoint {} of "
      "step {}\n",
      options.split, metric_words(metric), 100 * accuracy.accuracy, accuracy.correct,
      accuracy.count, 100 * accuracy.ci95.low, 100 * accuracy.ci95.high, evaluation.loss,
      options.checkpoint, run.at.step);
}

}  // namespace

void add_train_command(CLI::App& app) {
  auto* command = app.add_subcommand("train", "Train one attention on one task under a protocol");
  auto options = std::make_shared<TrainOptions>();
  command->add_option("--task", options->task, "Task; see lra list tasks")->required();
  add_attention_options(*command, options->attention, options->options);
  command->add_option("--protocol", options->protocol, "Protocol, or a path to one")
      ->capture_default_str();
  command
      ->add_option(
          "--set", options->sets,
          "Override, as training.batch=16 (repeatable, the last of a key counts); the record "
          "says so")
      ->allow_extra_args(false);
  command
      ->add_option("--objective", options->objective,
                   "classify, masked (hidden tokens of the inputs) or causal (the next token), "
                   "without labels: short for --set training.objective=")
      ->check(CLI::IsMember(all_names<Objective>()));
  command->add_option("--init-from", options->init_from,
                      "Start from the weights of this run folder (its best checkpoint) or "
                      "checkpoint, all but the head");
  command
      ->add_option("--seed", options->seed,
                   "Of initialisation, order, dropout, projections, hashes")
      ->check(seed_text())
      ->capture_default_str();
  command->add_option("--data", options->data, "Folder of lra data prepare --out")
      ->check(some_name())
      ->capture_default_str();
  command->add_option("--run", options->run, "Folder for everything the run leaves")
      ->check(some_name())
      ->required();
  auto* resume = command->add_flag("--resume", options->resume,
                                   "Continue the run in that folder, or start it");
  command
      ->add_flag("--overwrite", options->overwrite,
                 "Remove the run in that folder first, its checkpoints and result too, and the "
                 "pretraining that came before it")
      ->excludes(resume);
  add_device_option(*command, options->device);
  command->add_option("--dtype", options->dtype, "float32, or bfloat16 (autocast)")
      ->capture_default_str();
  command
      ->add_option("--threads", options->threads,
                   "0 = all processors, or with --resume as many as the run had")
      ->capture_default_str();
  command->add_option(
      "--memory-limit", options->memory_limit,
      "On CPUs: a run that needs more tensors is oom, as 8GiB; default: 80 % of what is free");
  add_contract_options(*command, options->check);
  command->add_option(
      "--tensorboard", options->event_files,
      "Folder for the run's log as a TensorBoard event file, line by line, too: one "
      "for each run, or TensorBoard shows the last alone");
  command->callback([options] {
    begin_work_in_files();
    // Before the processes of a launcher meet, which they can once.
    need_python_for(attention_given(options->attention, options->options).name);
    run_together(options->device, [&](Processes* processes) { run_train(*options, processes); });
  });
}

void add_evaluate_command(CLI::App& app) {
  auto* command = app.add_subcommand("evaluate", "Evaluate a run's checkpoint on a whole split");
  auto options = std::make_shared<EvaluateOptions>();
  command->add_option("RUN", options->run, "Run folder")->required();
  command->add_option("--split", options->split, "train, dev or test")
      ->check(CLI::IsMember({"train", "dev", "test"}))
      ->capture_default_str();
  command->add_option("--checkpoint", options->checkpoint, "best or last")
      ->check(CLI::IsMember(all_names<CheckpointKind>()))
      ->capture_default_str();
  command->add_option("--data", options->data,
                      "Folder of lra data prepare --out; default: the run's own");
  add_device_option(*command, options->device);
  add_threads_option(*command, options->threads);
  command->add_flag("--json", options->as_json, "As JSON");
  command->callback([options] {
    host::stop_at_signals();
    need_python_for(attention_of(options->run));
    run_together(options->device, [&](Processes* processes) { run_evaluate(*options, processes); });
  });
}

}  // namespace lra
