// `lra attend`: one attention call, or a whole model, on tensors from a file.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "harness/attend/attend_file.h"
#include "harness/attend/attend_model.h"
#include "harness/commands/commands.h"

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
  return make_config(load_protocol(options.protocol.empty() ? "lra-strict" : options.protocol),
                     options.task, parse_attention(options.attention), sets, options.seed,
                     "float32");
}

// One attention alone is given no model, data or optimizer: a value of theirs would be read by
// nothing.
void check_read(const Config& config) {
  constexpr const char* kRead[] = {"model.padded_rows", "model.causal", "input.mask", "kernels"};
  for (const std::string& key : config.overridden) {
    if (std::ranges::count(kRead, key) > 0) continue;
    throw UsageError(fmt::format(
        "--set {}: --scope attention reads {} alone; give --scope model, or options of the "
        "attention in its brackets",
        key, fmt::join(kRead, ", ")));
  }
}

TensorFile attend(const AttendOptions& options, const TensorFile& in) {
  const bool model = options.scope == "model";
  if (!model && options.protocol.empty() && options.task.empty() && options.sets.empty())
    return attend_file(parse_attention(options.attention), in, options.seed);
  const Config config = attend_config(options, in);
  if (model) return attend_model(config, in);
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
  command->add_option("--protocol", options->protocol,
                      "What it means by the attention in --task; default lra-strict");
  command->add_option("--task", options->task, "Task of the protocol");
  command->add_option("--set", options->sets,
                      "Settings over the protocol's: model.width=16 of scope model, else "
                      "model.padded_rows, model.causal, input.mask or kernels");
  command->add_option("--seed", options->seed, "Of the parameters that the input does not give")
      ->check(seed_text())
      ->capture_default_str();
  command->callback([options] { run_attend(*options); });
}

}  // namespace lra
