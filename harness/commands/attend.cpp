// `lra attend`: one attention call on tensors from a file.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "harness/commands/attend_file.h"
#include "harness/commands/commands.h"

namespace lra {

void add_attend_command(CLI::App& app) {
  struct Options {
    std::string attention, input, output;
    uint64_t seed = 0;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* const command =
      app.add_subcommand("attend", "Run one attention on tensors from a file, with gradients");
  command
      ->add_option("--attention", options->attention,
                   "Variant, with options: nystrom[num_landmarks=32]")
      ->required();
  command
      ->add_option(
          "--input", options->input,
          "Safetensors file: q, k, v [B,H,N,d], [mask [B,N]], [param.<name>], [grad_output]")
      ->required();
  command
      ->add_option("--output", options->output,
                   "Safetensors file to write: output, and with grad_output grad.q, grad.k, "
                   "grad.v, grad.param.<name>")
      ->required();
  command->add_option("--seed", options->seed, "Of the parameters that the input does not give")
      ->check(seed_text())
      ->capture_default_str();
  command->callback([options] {
    const AttentionSpec spec = parse_attention(options->attention);
    attention_entry(spec.name).effective_options(
        spec.options);  // a wrong name or option before any work
    const TensorFile in = read_tensors(options->input);
    TensorFile out;
    try {
      out = attend_file(spec, in, options->seed);
    } catch (const UsageError&) {
      throw;
    } catch (const Error& error) {
      throw Error(fmt::format("{}: {}", options->input, error.what()));
    }
    write_tensors(options->output, out);
  });
}

}  // namespace lra
