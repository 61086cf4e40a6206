// lra profile: memory and time per length.
#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "harness/commands.h"
#include "harness/memory.h"
#include "harness/profiler.h"
#include "harness/progress.h"
#include "harness/runtime.h"
#include "lra/files.h"
#include "lra/protocol.h"
#include "lra/task.h"

namespace lra {
namespace {

struct ProfileOptions {
  std::string preset, attentions, scope, mode, dtype = "float32", device = "cpu",
                                               protocol = "lra-strict", task, memory_limit, out;
  std::vector<int64_t> lengths;
  int64_t batch = 0, heads = 0, head_dim = 0, threads = 0;
  double seconds = 3;
};

// What a preset fixes; single options go over it.
struct Preset {
  const char* name;
  std::vector<int64_t> lengths;
  int64_t batch, heads, head_dim;
  const char *scope, *mode;
};

const Preset kPresets[] = {
    // One self-attention layer of BERT-base, as Table 1 of Xiong et al. 2021: a whole layer with
    // its projections, inference.
    {"table1", {512, 1024, 2048, 4096, 8192}, 1, 12, 64, "module", "inference"},
    // The attention of the benchmark's own model.
    {"lra", {512, 1024, 2048, 4096, 8192}, 1, 2, 32, "core", "training"},
};

const Preset& preset_of(const std::string& name) {
  std::vector<std::string> names;
  for (const Preset& preset : kPresets) {
    if (name == preset.name) return preset;
    names.emplace_back(preset.name);
  }
  throw unknown_name("preset", name, names);
}

// "8GiB", "512MiB" or plain bytes.
int64_t parse_bytes(const std::string& text) {
  std::istringstream in(text);
  double value = 0;
  std::string unit;
  in >> value >> unit;
  const double scale = unit.empty() || unit == "B" ? 1
                       : unit == "KiB"             ? 1024.0
                       : unit == "MiB"             ? kMiB
                       : unit == "GiB"             ? 1024 * kMiB
                                                   : 0;
  if (!(value > 0) || scale == 0)
    throw UsageError("--memory-limit should be a size such as 8GiB or 512MiB, not '" + text + "'");
  return static_cast<int64_t>(value * scale);
}

// The file's cells so far, so that a second call measures only what is missing.
std::vector<Profile> finished_cells(const std::filesystem::path& out) {
  if (!std::filesystem::exists(out)) return {};
  const Records records = find_records({out});
  const bool other = !records.results.empty() || !records.fidelity.empty();
  if (!records.bad.empty() || other) {
    throw Error(fmt::format("{} is not a profile of this program ({}); choose another --out",
                            out.string(),
                            other ? "it holds other records" : records.bad.front().reason));
  }
  return records.profiles;
}

void write_cells(const std::filesystem::path& out, const std::vector<Profile>& cells) {
  std::string text;
  for (const Profile& cell : cells) text += make_profile(cell).dump() + "\n";
  write_file(out, text);
}

std::vector<ProfileCell> plan(const ProfileOptions& given) {
  if (!given.out.ends_with(".jsonl"))
    throw UsageError("--out should name a .jsonl file, not '" + given.out + "'");
  load_protocol(given.protocol);
  const Preset& preset = preset_of(given.preset.empty() ? "lra" : given.preset);
  std::vector<AttentionSpec> attentions;
  if (given.attentions.empty()) {
    for (const AttentionEntry* entry : attention_entries())
      attentions.push_back({.name = entry->info.name});
  } else {
    attentions = parse_attentions(given.attentions);
  }
  std::vector<ProfileCell> cells;
  for (const int64_t length : given.lengths.empty() ? preset.lengths : given.lengths) {
    for (const AttentionSpec& attention : attentions) {
      attention_entry(attention.name).effective_options(attention.options);
      ProfileCell cell{.attention = attention,
                       .length = length,
                       .batch = given.batch > 0 ? given.batch : preset.batch,
                       .heads = given.heads > 0 ? given.heads : preset.heads,
                       .head_dim = given.head_dim > 0 ? given.head_dim : preset.head_dim,
                       .scope = given.scope.empty() ? preset.scope : given.scope,
                       .mode = given.mode.empty() ? preset.mode : given.mode,
                       .dtype = given.dtype,
                       .protocol = given.protocol,
                       .task = given.task.empty() ? tasks().front()->name : task(given.task).name};
      if (cell.scope == "model" && cell.dtype == "float64") {
        throw UsageError("--scope model runs in float32 or bfloat16 (autocast), not in float64");
      }
      cells.push_back(std::move(cell));
    }
  }
  return cells;
}

void run_profile(const ProfileOptions& options) {
  const std::vector<ProfileCell> cells = plan(options);
  const torch::Device device = parse_device(options.device);
  const int64_t threads = use_threads(options.threads);
  const int64_t limit =
      options.memory_limit.empty() ? default_memory_limit() : parse_bytes(options.memory_limit);
  std::vector<Profile> done = finished_cells(options.out);
  {
    const AtomicFile writable(options.out);
  }  // a folder that is missing or read-only is found before the first cell
  const std::string machine = machine_text(machine_of(device)),
                    protocol = load_protocol(options.protocol).name;

  int64_t index = 0;
  for (const ProfileCell& cell : cells) {
    ++index;
    const bool model = cell.scope == "model";
    const auto same = [&](const Profile& p) {
      return p.attention.label == cell.attention.text() && p.length == cell.length &&
             p.batch == cell.batch && p.heads == cell.heads && p.head_dim == cell.head_dim &&
             p.scope == cell.scope && p.mode == cell.mode && p.dtype == cell.dtype &&
             p.device == device.str() && p.threads == threads &&
             machine_text(p.machine) == machine && p.protocol == (model ? protocol : "") &&
             p.task == (model ? cell.task : "");
    };
    if (std::ranges::any_of(done, same)) continue;
    Profile record = profile_cell(cell, device, threads, limit, {.seconds = options.seconds});
    say(record.status == "ok"
            ? fmt::format("{}/{} {} N={} {} {}: {:.3g} ms, {:.1f} MiB", index, cells.size(),
                          record.attention.label, record.length, record.scope, record.mode,
                          record.time->median, record.memory->peak)
            : fmt::format("{}/{} {} N={} {} {}: {} ({})", index, cells.size(),
                          record.attention.label, record.length, record.scope, record.mode,
                          record.status, record.reason));
    done.push_back(std::move(record));
    write_cells(options.out, done);
  }
  say(fmt::format("{} cells in {}", done.size(), options.out));
}

}  // namespace

void add_profile_command(CLI::App& app) {
  auto* command = app.add_subcommand("profile", "Measure memory and time per length");
  auto options = std::make_shared<ProfileOptions>();
  command->add_option("--preset", options->preset, "table1 (BERT-base layer) or lra (default)");
  command->add_option("--attentions", options->attentions, "Comma list; default: all");
  command->add_option("--lengths", options->lengths, "Comma list; default: the preset's")
      ->delimiter(',')
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 24));
  command
      ->add_option("--scope", options->scope, "core (q, k, v), module (with projections) or model")
      ->check(CLI::IsMember({"core", "module", "model"}));
  command->add_option("--mode", options->mode, "inference or training (forward + backward)")
      ->check(CLI::IsMember({"inference", "training"}));
  command->add_option("--batch", options->batch, "Default: the preset's")
      ->check(CLI::Range(1, 1 << 20));
  command->add_option("--heads", options->heads, "Default: the preset's")
      ->check(CLI::Range(1, 1 << 12));
  command->add_option("--head-dim", options->head_dim, "Default: the preset's")
      ->check(CLI::Range(1, 1 << 12));
  command->add_option("--protocol", options->protocol, "Of scope model")->capture_default_str();
  command->add_option("--task", options->task,
                      "Of scope model; default: the first of lra list tasks");
  command->add_option(
      "--memory-limit", options->memory_limit,
      "On CPUs: a cell that needs more tensors is oom, as 8GiB; default: 80 % of what is free");
  command->add_option("--seconds", options->seconds, "Most time for the samples of a cell")
      ->check(CLI::Range(0.001, 1e6))
      ->capture_default_str();
  command->add_option("--device", options->device, "cpu, cuda or cuda:N")->capture_default_str();
  command->add_option("--dtype", options->dtype, "float32, float64 or bfloat16")
      ->capture_default_str();
  command->add_option("--threads", options->threads, "0 = all processors")->capture_default_str();
  command->add_option("--out", options->out, "JSONL file; cells that it holds already are kept")
      ->required();
  command->callback([options] { run_profile(*options); });
}

}  // namespace lra
