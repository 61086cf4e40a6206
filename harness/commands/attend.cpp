// `lra attend`: one attention call, or a whole model, on tensors from a file; and `lra predict`: a
// run's model on samples from a file.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "attention_variants/base/files.h"
#include "attention_variants/python_host.h"
#include "harness/attend/attend_file.h"
#include "harness/attend/attend_model.h"
#include "harness/attend/predict.h"
#include "harness/commands/commands.h"
#include "harness/host/progress.h"
#include "harness/host/runtime.h"
#include "harness/host/signals.h"
#include "harness/processes/processes.h"

namespace lra {
namespace {

struct AttendOptions {
  std::string attention, input, output, protocol, task, scope = "attention";
  std::vector<std::string> sets;
  uint64_t seed = 0;
};

// What the protocol means by the attention; with --scope model of the length of the inputs, where
// --set gives none.
Config attend_config(const AttendOptions& options, const TensorFile& in) {
  if (options.task.empty())
    throw UsageError("--protocol, --set and --scope model need --task: a protocol differs by task");
  std::vector<std::string> sets;
  if (options.scope == "model") sets.push_back("input.length=" + std::to_string(input_length(in)));
  sets.insert(sets.end(), options.sets.begin(), options.sets.end());
  return make_config(load_protocol(options.protocol.empty() ? kDefaultProtocol : options.protocol),
                     options.task, parse_attention(options.attention), sets, options.seed,
                     "float32");
}

// A protocol that fixes the number type is taken in float32 by training.dtype=any.
constexpr const char* kDtype = "training.dtype";

// One attention alone is given no model, data or optimizer: a value of theirs would be read by
// nothing.
void check_read(const Config& config) {
  constexpr const char* kRead[] = {"model.padded_rows", "model.causal", "input.mask", "kernels"};
  for (const std::string& key : config.overridden) {
    if (std::ranges::count(kRead, key) > 0 || key == kDtype) continue;
    throw UsageError(fmt::format(
        "--set {}: --scope attention reads {} alone; give --scope model, or options of the "
        "attention in its brackets",
        key, fmt::join(kRead, ", ")));
  }
}

// The whole model is given tokens as they are, and neither trained nor judged.
void check_read_by_model(const Config& config) {
  constexpr const char* kRead[] = {"input.length",  "input.mask", "input.brackets",
                                   "input.colours", "kernels",    "training.objective"};
  for (const std::string& key : config.overridden) {
    if (key.starts_with("model.") || std::ranges::count(kRead, key) > 0 || key == kDtype) continue;
    throw UsageError(fmt::format("--set {}: --scope model reads model.* and {} alone; leave it out",
                                 key, fmt::join(kRead, ", ")));
  }
}

TensorFile attend(const AttendOptions& options, const TensorFile& in) {
  const bool model = options.scope == "model";
  if (!model && options.protocol.empty() && options.task.empty() && options.sets.empty())
    return attend_file(parse_attention(options.attention), in, options.seed);
  const Config config = attend_config(options, in);
  if (model) {
    check_read_by_model(config);
    return attend_model(config, in);
  }
  check_read(config);
  const Settings& settings = config.settings;
  return attend_file({.name = config.attention.name, .options = config.attention_options}, in,
                     options.seed,
                     {.padded_rows = settings.model.padded_rows,
                      .masked = settings.input.mask != InputMask::none,
                      .kernels = settings.kernels,
                      .causal = settings.model.causal});
}

void run_attend(const AttendOptions& options) {
  const AttentionSpec spec = parse_attention(options.attention);
  // A wrong name or option before any work.
  if (options.protocol.empty()) attention_entry(spec.name).effective_options(spec.options);
  std::error_code missing;
  if (std::filesystem::equivalent(options.input, options.output, missing))
    throw UsageError("--output " + options.output + " is --input; name another file");
  const TensorFile in = read_tensors(options.input);
  TensorFile out;
  try {
    out = attend(options, in);
  } catch (const UsageError&) {
    throw;
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", options.input, error.what()));
  }
  write_tensors(options.output, out);
}

struct PredictOptions {
  std::string run, input, checkpoint = "best", device = "cpu";
  int64_t threads = 0;
  bool as_json = false;
};

std::string all_input(const std::string& input) {
  if (input != "-") return read_file(input);
  return {std::istreambuf_iterator<char>(std::cin), {}};
}

// Without their ends, "\n" or "\r\n"; what follows the last end is a line where it is not empty.
std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    if (lines.back().ends_with('\r')) lines.back().pop_back();
    at = end + 1;
  }
  return lines;
}

json predictions_json(const PredictOptions& options, const TrainedModel& run,
                      const PredictedLines& made) {
  json lines = json::array();
  for (const auto& [predicted, confidence] : made.lines)
    lines.push_back(
        {{"index", lines.size()}, {"predicted", predicted}, {"confidence", confidence}});
  return {{"run", options.run},
          {"checkpoint", options.checkpoint},
          {"step", run.at.step},
          {"cut", made.cut},
          {"predictions", std::move(lines)}};
}

void run_predict(const PredictOptions& options) {
  const torch::Device device = own_device(options.device, nullptr);
  use_threads(options.threads, nullptr);
  const TrainedModel run =
      open_model(options.run, *parse_name<CheckpointKind>(options.checkpoint), device);
  const std::vector<std::string> lines = lines_of(all_input(options.input));
  const std::string name = options.input == "-" ? "standard input" : options.input;
  if (lines.empty()) throw Error(name + " has no line; one sample a line is expected");
  host::stop_at_signals();  // from here on: what waits for its input ends at the first
  const PredictedLines made = predict(run, lines, device, name);
  if (made.cut > 0) {
    host::say(fmt::format("{} of {} lines are cut: the run reads {} tokens", made.cut, lines.size(),
                          run.config.settings.input.kept()));
  }
  if (options.as_json) return print_json(predictions_json(options, run, made));
  fmt::print("{}", lines_csv(made));
}

}  // namespace

void add_attend_command(CLI::App& app) {
  const auto options = std::make_shared<AttendOptions>();
  CLI::App* const command = app.add_subcommand(
      "attend", "Run one attention, or a whole model, on tensors from a file, with gradients");
  command
      ->add_option("--attention", options->attention,
                   "Variant, with options: nystrom[num_landmarks=32]")
      ->required();
  command
      ->add_option(
          "--input", options->input,
          "Safetensors file: q, k, v [B,H,N,d], [mask [B,N]], [param.<name>], [grad_output]; of "
          "scope model tokens [B,N] (tokens1 and tokens2), [mask], [param.<name>], [grad_output "
          "[B,classes]]")
      ->required();
  command
      ->add_option("--output", options->output,
                   "Safetensors file to write: output, and with grad_output grad.q, grad.k, "
                   "grad.v, grad.param.<name>; of scope model logits and grad.param.<name>")
      ->required();
  command->add_option("--scope", options->scope, "attention, or model: the whole one")
      ->check(CLI::IsMember({"attention", "model"}))
      ->capture_default_str();
  command->add_option(
      "--protocol", options->protocol,
      std::string("What it means by the attention in --task; default ") + kDefaultProtocol);
  command->add_option("--task", options->task, "Task of the protocol");
  command->add_option("--set", options->sets,
                      "Settings over the protocol's: model.width=16 of scope model, else "
                      "model.padded_rows, model.causal, input.mask or kernels");
  command->add_option("--seed", options->seed, "Of the parameters that the input does not give")
      ->check(seed_text())
      ->capture_default_str();
  command->callback([options] { run_attend(*options); });
}

void add_predict_command(CLI::App& app) {
  const auto options = std::make_shared<PredictOptions>();
  CLI::App* const command = app.add_subcommand(
      "predict", "Say what a run's model predicts of samples from a file, one a line");
  command->add_option("RUN", options->run, "Run folder")->required();
  command
      ->add_option("--input", options->input,
                   "File, or - for standard input; a line is an expression of listops, a review of "
                   "text, two papers of retrieval with a tab between them, else ids")
      ->required();
  command->add_option("--checkpoint", options->checkpoint, "best or last")
      ->check(CLI::IsMember(all_names<CheckpointKind>()))
      ->capture_default_str();
  add_device_option(*command, options->device);
  add_threads_option(*command, options->threads);
  command->add_flag("--json", options->as_json, "As JSON, not CSV");
  command->callback([options] {
    need_python_for(attention_of(options->run));
    run_predict(*options);
  });
}

}  // namespace lra
