// lra profile: memory and time per length.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <sstream>

#include "attention_variants/base/files.h"
#include "harness/commands/commands.h"
#include "harness/host/memory.h"
#include "harness/host/progress.h"
#include "harness/host/runtime.h"
#include "harness/profile/peers.h"
#include "harness/profile/profile_run.h"
#include "lra/config/preset.h"
#include "lra/config/protocol.h"
#include "lra/data/task.h"
#include "results/tables/profile_compare.h"

namespace lra {
namespace {

struct ProfileOptions {
  std::string preset = "lra", attentions, scope, mode, batch, dtype = "float32", device = "cpu",
              protocol, task, memory_limit, flush, out, compare, peers, child;
  std::vector<int64_t> lengths;
  std::vector<std::string> sets;
  int64_t heads = 0, head_dim = 0, threads = 0, passes = 0;
  uint64_t seed = 0;
  double seconds = 3, timeout = 600, max_minutes = 0, tolerance = 0.1;
  bool no_pin = false, again = false;
};

// How the batch of each cell is found.
struct BatchRule {
  enum class Kind { fixed, tokens, largest } kind = Kind::fixed;
  int64_t count = 0;   // of samples or tokens
  std::string policy;  // for the records
};

// Under so many seconds a cell, more than one process is not worth its start.
constexpr double kRough = 0.1;

// What a size may be at most: a number of bytes that a double and an int64_t both hold.
constexpr double kMostBytes = 9e15;

constexpr const char* kTokens = "tokens=";
constexpr const char* kLargest = "largest";

BatchRule parse_batch(const std::string& text) {
  if (text == kLargest) return {.kind = BatchRule::Kind::largest, .policy = kLargest};
  const bool tokens = text.starts_with(kTokens);
  const std::string digits = tokens ? text.substr(std::string(kTokens).size()) : text;
  int64_t count = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), count);
  if (error != std::errc() || end != digits.data() + digits.size() || count < 1 ||
      count > int64_t{1} << 24) {
    throw UsageError(
        "--batch should be a number of samples, tokens=T (T tokens a batch) or largest (the most "
        "that fits --memory-limit), not '" +
        text + "'");
  }
  if (!tokens) return {.count = count};
  return {.kind = BatchRule::Kind::tokens, .count = count, .policy = text};
}

// An option (0 = not given) beside what a --set made of it.
void check_given(const char* option, int64_t given, const char* key, int64_t used) {
  if (given > 0 && given != used) {
    throw UsageError(fmt::format("{} {} and --set {}={} contradict each other: give one of them",
                                 option, given, key, used));
  }
}

ProfilePlan plan(const ProfileOptions& given) {
  if (!given.out.ends_with(".jsonl"))
    throw UsageError("--out should name a .jsonl file, not '" + given.out + "'");
  const Preset preset = load_preset(given.preset);
  const std::string protocol_name = given.protocol.empty() ? preset.protocol : given.protocol;
  const Protocol protocol = load_protocol(protocol_name);
  const std::string task_name = !given.task.empty()    ? task(given.task).name
                                : !preset.task.empty() ? preset.task
                                                       : tasks().front()->name;
  const int64_t usual =
      preset.batch > 0 ? preset.batch : task_settings(protocol, task_name).training.batch;
  const BatchRule batch =
      given.batch.empty() ? BatchRule{.count = usual} : parse_batch(given.batch);
  const std::string scope = given.scope.empty() ? preset.scope : given.scope;
  std::vector<std::string> sets = given.sets;
  int64_t heads = preset.heads, head_dim = preset.head_dim;
  if (scope == preset.scope) {  // what is given later stands
    const auto own = preset.set_words();
    sets.insert(sets.begin(), own.begin(), own.end());
  } else if (scope == "model") {
    heads = head_dim = 0;  // the protocol's
  }

  if (!given.peers.empty() && given.device != "cpu")
    throw UsageError("--peers measures on the CPU: choose --device cpu");

  ProfilePlan plan{.peers = given.peers,
                   .out = given.out,
                   .device = given.device,
                   .threads = use_threads(given.threads),
                   .seconds = given.seconds,
                   .timeout = given.timeout,
                   .passes = given.passes > 0         ? given.passes
                             : given.seconds < kRough ? 1
                                                      : 3,
                   .max_minutes = given.max_minutes,
                   .seed = given.seed,
                   .pin = !given.no_pin,
                   .again = given.again};
  if (!given.memory_limit.empty())
    plan.memory_limit = parse_bytes("--memory-limit", given.memory_limit);
  if (!given.flush.empty()) plan.flush_bytes = parse_bytes("--flush", given.flush);
  const std::string list = given.attentions.empty() ? preset.attentions : given.attentions;
  for (const int64_t length : given.lengths.empty() ? preset.length_list() : given.lengths) {
    for (const AttentionSpec& attention : attentions_of(list)) {
      ProfileCell cell{.attention = attention,
                       .length = length,
                       .batch = batch.kind == BatchRule::Kind::tokens
                                    ? std::max<int64_t>(batch.count / length, 1)
                                    : batch.count,
                       .heads = given.heads > 0 ? given.heads : heads,
                       .head_dim = given.head_dim > 0 ? given.head_dim : head_dim,
                       .scope = scope,
                       .mode = given.mode.empty() ? preset.mode : given.mode,
                       .dtype = given.dtype,
                       .protocol = protocol_name,
                       .task = task_name,
                       .sets = sets,
                       .batch_policy = batch.policy};
      cell = validated_cell(std::move(cell));
      check_given("--heads", given.heads, "model.heads", cell.heads);
      check_given("--head-dim", given.head_dim, "model.head_dim", cell.head_dim);
      plan.cells.push_back(std::move(cell));
    }
  }
  // Only now, as it is work: what is wrong was found above.
  if (batch.kind == BatchRule::Kind::largest) {
    parse_device(given.device);
    const int64_t limit = plan.memory_limit > 0 ? plan.memory_limit : default_memory_limit();
    for (ProfileCell& cell : plan.cells) {
      cell.batch = 1;
      cell.batch = std::max<int64_t>(largest_batch(cell, plan, limit), 1);
      say(fmt::format("{} N={}: batch {}", cell.attention.text(), cell.length, cell.batch));
    }
  }
  if (!given.peers.empty()) plan.cells = with_peers(plan.cells, list_peers(given.peers));
  return plan;
}

// What a comparison says; throws where something got worse.
void compare(const ProfileOptions& options, const std::vector<Profile>& now) {
  const Comparison comparison =
      compare_profiles(read_profile(options.compare), now, options.tolerance);
  if (comparison.table.rows.empty()) {
    throw Error(
        fmt::format("--compare {}: has no cell in common with {}: attention, options, "
                    "length, sizes, scope, mode, type, threads and machine must agree",
                    options.compare, options.out));
  }
  fmt::print("{}", to_text(comparison.table));
  if (comparison.worse > 0) {
    throw Error(fmt::format("{} of {} cells are worse than in {} by more than {:g} %",
                            comparison.worse, comparison.table.rows.size(), options.compare,
                            100 * options.tolerance));
  }
}

void profile(const ProfileOptions& options) {
  if (!options.child.empty()) {
    run_profile_child(options.child);
    return;
  }
  if (options.out.empty()) throw UsageError("--out is required: the JSONL file to write");
  if (!options.compare.empty() && !std::filesystem::exists(options.compare))
    throw UsageError("--compare " + options.compare + ": no such file");
  const ProfilePlan planned = plan(options);
  const std::vector<Profile> records = run_profile(planned);
  say(fmt::format("{} cells in {}", records.size(), options.out));
  if (!options.compare.empty()) compare(options, records);
}

}  // namespace

int64_t parse_bytes(const std::string& option, const std::string& text) {
  std::istringstream in(text);
  double value = 0;
  std::string unit;
  in >> value >> unit;
  std::string rest;
  in >> rest;
  const double scale = unit.empty() || unit == "B" ? 1
                       : unit == "KiB"             ? 1024.0
                       : unit == "MiB"             ? kMiB
                       : unit == "GiB"             ? 1024 * kMiB
                                                   : 0;
  if (!(value > 0) || scale == 0 || !rest.empty() || value * scale > kMostBytes)
    throw UsageError(option + " should be a size such as 8GiB or 512MiB, not '" + text + "'");
  return static_cast<int64_t>(value * scale);
}

void add_profile_command(CLI::App& app) {
  auto* command = app.add_subcommand("profile", "Measure memory and time per length");
  auto options = std::make_shared<ProfileOptions>();
  command
      ->add_option("--preset", options->preset,
                   fmt::format("{}, or a path to your own; the options below go over it",
                               fmt::join(preset_names(), ", ")))
      ->capture_default_str();
  command->add_option("--attentions", options->attentions,
                      "Comma list, * = all others; default: the preset's");
  command->add_option("--lengths", options->lengths, "Comma list; default: the preset's")
      ->delimiter(',')
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 24));
  command
      ->add_option("--scope", options->scope, "core (q, k, v), module (with projections) or model")
      ->check(CLI::IsMember({"core", "module", "model"}));
  command
      ->add_option("--mode", options->mode,
                   "inference or training (forward + backward; of a model, optimizer step too)")
      ->check(CLI::IsMember({"inference", "training"}));
  command->add_option("--batch", options->batch,
                      "Samples; tokens=T: T tokens a batch; largest: the largest power of two that "
                      "fits --memory-limit; default: the preset's");
  command
      ->add_option("--heads", options->heads,
                   "Default: the preset's, or of scope model the protocol's, if the preset is of "
                   "another scope")
      ->check(CLI::Range(1, 1 << 12));
  command->add_option("--head-dim", options->head_dim, "Likewise")->check(CLI::Range(1, 1 << 12));
  command->add_option("--protocol", options->protocol, "Of scope model; default: the preset's");
  command->add_option("--task", options->task,
                      "Of scope model, and of the protocol's batch; default: the preset's");
  command->add_option("--set", options->sets, "Of scope model: override a.b=v (repeatable)")
      ->allow_extra_args(false);
  command->add_option(
      "--memory-limit", options->memory_limit,
      "On CPUs: a cell that needs more tensors is oom, as 8GiB; default: 80 % of what is free");
  command
      ->add_option("--seconds", options->seconds,
                   "Most time for the samples of a cell, over its passes")
      ->check(CLI::Range(0.001, 1e6))
      ->capture_default_str();
  command
      ->add_option("--passes", options->passes,
                   "Processes a cell, and up to as many again for a noisy one; default: 3, or 1 "
                   "where --seconds is under 0.1")
      ->check(CLI::Range(1, 1000));
  command
      ->add_option("--timeout", options->timeout,
                   "Seconds after which a process is ended and its cell is timeout; 0 = none")
      ->check(CLI::Range(0.0, 1e9))
      ->capture_default_str();
  command
      ->add_option("--max-minutes", options->max_minutes,
                   "After these begin no pass but a cell's first; cells with fewer passes are "
                   "marked, and the same command goes on; 0 = no end")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  command->add_option("--order-seed", options->seed, "Of the order within a pass")
      ->check(seed_text())
      ->capture_default_str();
  command->add_flag("--no-pin", options->no_pin, "Let the system move threads between processors");
  command->add_flag("--again", options->again,
                    "Measure anew the cells of --out that failed or stayed noisy");
  command->add_option("--flush", options->flush,
                      "On GPUs: overwrite this much before each sample, as 64MiB (their L2 cache)");
  command->add_option("--device", options->device, "cpu, cuda or cuda:N")->capture_default_str();
  command->add_option("--dtype", options->dtype, "float32, float64 or bfloat16")
      ->capture_default_str();
  command->add_option("--threads", options->threads, "0 = all processors")->capture_default_str();
  command->add_option("--out", options->out, "JSONL file; cells that it holds already are kept");
  command->add_option("--compare", options->compare,
                      "Earlier profile: say per cell whether it is slower; exit 1 where one is");
  command
      ->add_option("--tolerance", options->tolerance,
                   "Of --compare: a change of up to this part is none")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  command->add_option("--peers", options->peers,
                      "Measure other packages' layers too, by this program, between our own: "
                      "harness/profile/peers/profile_peers.py, which needs its packages");
  command->add_option("--child", options->child)->group("");  // of our own processes
  command->callback([options] { profile(*options); });
}

}  // namespace lra
