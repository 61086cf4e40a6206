// lra profile: memory and time per length.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "attention_variants/base/files.h"
#include "attention_variants/base/text.h"
#include "harness/commands/commands.h"
#include "harness/commands/profile_comparison.h"
#include "harness/host/progress.h"
#include "harness/host/runtime.h"
#include "harness/host/signals.h"
#include "harness/host/terminal.h"
#include "harness/profile/child.h"
#include "harness/profile/passes.h"
#include "harness/profile/plan.h"
#include "harness/profile/profile_run.h"
#include "harness/where/where.h"
#include "lra/config/once.h"
#include "lra/config/preset.h"
#include "results/print/terminal.h"
#include "results/tables/profile_speed.h"
#include "results/tables/profile_table.h"
#include "results/where/table.h"

namespace lra {
namespace {

// In the table of --where; the file has all.
constexpr size_t kMostOps = 25;

struct ProfileOptions {
  profile::ProfileRequest request;
  profile::ProfilePlan plan;
  std::string scope, mode;  // "" = the preset's
  std::string memory_limit, flush, out, compare, child;
  double tolerance = 0.1;
  bool no_pin = false, where = false;
};

profile::ProfileRequest request_of(const ProfileOptions& given) {
  profile::ProfileRequest request = given.request;
  if (!request.attentions.empty()) check_once("--attentions", parse_attentions(request.attentions));
  check_once("--lengths", request.lengths);
  request.scope = parse_name<ProfileScope>(given.scope);
  request.mode = parse_name<ProfileMode>(given.mode);
  return request;
}

profile::ProfilePlan planned_profile(const ProfileOptions& given) {
  profile::ProfilePlan plan = given.plan;
  plan.out = given.out;
  plan.pin = !given.no_pin;
  const bool cpu = plan.device == "cpu";
  if (!given.memory_limit.empty()) {
    plan.memory_limit = parse_bytes("--memory-limit", given.memory_limit);
    if (!cpu && given.request.batch != "largest")
      throw UsageError("--memory-limit applies to CPUs and to --batch largest alone: on " +
                       plan.device + " leave it out");
  }
  if (!given.flush.empty()) {
    plan.flush_bytes = parse_bytes("--flush", given.flush);
    if (cpu) throw UsageError("--flush overwrites a GPU's cache: on --device cpu leave it out");
  }
  return profile::plan_profile(request_of(given), std::move(plan));
}

void print_profiles(const std::vector<Profile>& profiles) {
  for (const Table& table : memory_time_tables(profiles, /*references=*/{}))
    fmt::print("{}\n", to_terminal(table, host::table_columns()));
  for (const std::string& line : speed_texts(profiles)) fmt::print("{}\n", printable(line));
}

profile::ProfilePlan planned_where(const ProfileOptions& options) {
  profile::ProfileRequest request = request_of(options);
  if (request.scope && *request.scope != ProfileScope::model)
    throw UsageError("--where tells parts of a model apart: --scope model, not " + options.scope);
  request.scope = ProfileScope::model;
  return profile::plan_profile(request, options.plan);
}

// --where: measures and prints one cell after the other. The file appears at the end; what a cell
// throws does not keep the others out of it.
void run_where(const ProfileOptions& options) {
  std::optional<AtomicFile> out;
  if (!options.out.empty()) {
    check_jsonl_out(options.out);
    if (std::filesystem::exists(options.out))
      throw UsageError("--out " + options.out + " exists: --where begins a file of its own");
    out.emplace(options.out);
  }
  const torch::Device device = host::parse_device(options.plan.device);
  const profile::ProfilePlan plan = planned_where(options);
  std::vector<std::string> failed;
  size_t done = 0;
  for (const profile::ProfileCell& cell : plan.cells) {
    try {
      const Where record = where::where_of(cell, device, plan.threads, plan.seconds);
      for (const Table& table : where_tables(record, kMostOps))
        fmt::print("{}\n", to_terminal(table, host::table_columns()));
      if (out) out->write(make_where(record).dump() + "\n");
      ++done;
    } catch (const host::Interrupted&) {
      if (!out || done == 0) throw;
      out->commit();
      throw host::Interrupted(
          fmt::format("stopped; {} has {} of {} cells, and the others want a file of their own",
                      options.out, done, plan.cells.size()));
    } catch (const std::exception& error) {
      failed.push_back(
          fmt::format("{} N={}: {}", cell.attention.text(), cell.length, first_line(error)));
    }
  }
  if (out && done > 0) out->commit();
  if (!failed.empty()) {
    throw Error(fmt::format("{} of {} cells could not be taken apart: {}", failed.size(),
                            plan.cells.size(), fmt::join(failed, "; ")));
  }
}

void run_profile_command(const ProfileOptions& options) {
  begin_work_in_files();
  if (!options.child.empty()) {
    profile::run_profile_child(options.child);
    return;
  }
  if (options.where) {
    run_where(options);
    return;
  }
  check_jsonl_out(options.out);
  const std::vector<Profile> earlier =
      options.compare.empty() ? std::vector<Profile>() : read_earlier(options.compare);
  const profile::ProfilePlan plan = planned_profile(options);
  const ComparisonOptions comparison{
      .earlier = options.compare, .now = options.out, .tolerance = options.tolerance};
  // Not known before they are asked: whether a package's layers are among them.
  if (!options.compare.empty() && options.plan.peers.empty())
    check_comparable(earlier, profile::planned_records(plan), comparison);
  const std::vector<Profile> records = profile::run_profile(plan);
  host::say(fmt::format("{} cells in {}", records.size(), options.out));
  const std::vector<Profile> asked = profile::profiles_of(plan, records);
  print_profiles(asked);
  if (!options.compare.empty()) print_comparison(earlier, asked, comparison);
  // A script must not take these for measured.
  if (const std::string text = profile::unmeasured_text(asked); !text.empty()) throw Error(text);
}

// What is measured.
void add_cell_options(CLI::App& command, ProfileOptions& options) {
  command
      .add_option("--preset", options.request.preset,
                  fmt::format("{}, or a path to your own; the options below go over it",
                              fmt::join(preset_names(), ", ")))
      ->capture_default_str();
  command
      .add_option("--attentions", options.request.attentions,
                  "Comma list, * = all others; default: the preset's")
      ->check(some_name());
  command
      .add_option("--lengths", options.request.lengths,
                  "Comma list, as 512,1Ki (1024); default: the preset's")
      ->delimiter(',')
      ->transform(length_text())
      ->check(CLI::Range(int64_t{1}, kLongestLength));
  command
      .add_option("--scope", options.scope, "core (q, k, v), module (with projections) or model")
      ->check(CLI::IsMember(all_names<ProfileScope>()));
  command
      .add_option("--mode", options.mode,
                  "inference or training (forward + backward; of a model, optimizer step too)")
      ->check(CLI::IsMember(all_names<ProfileMode>()));
  command.add_option(
      "--batch", options.request.batch,
      "Samples; tokens=T: as many as have at most T tokens; largest: the largest power of two that "
      "fits --memory-limit; default: the preset's");
  command
      .add_option("--heads", options.request.heads,
                  "Default: the preset's, or of scope model the protocol's, if the preset is of "
                  "another scope")
      ->check(CLI::Range(1, 1 << 12));
  command.add_option("--head-dim", options.request.head_dim, "Likewise")
      ->check(CLI::Range(1, 1 << 12));
  command.add_option("--protocol", options.request.protocol,
                     "Of scope model; default: the preset's");
  command.add_option("--task", options.request.task,
                     "Of scope model, and of the protocol's batch; default: the preset's");
  command
      .add_option("--set", options.request.sets,
                  "Of scope model: override a.b=v (repeatable, the last of a key counts)")
      ->allow_extra_args(false);
}

// How, and where to.
void add_measuring_options(CLI::App& command, ProfileOptions& options) {
  command.add_option(
      "--memory-limit", options.memory_limit,
      "On CPUs: a cell that needs more tensors is oom, as 8GiB; default: 80 % of what is free. On "
      "GPUs of --batch largest alone");
  command
      .add_option("--seconds", options.plan.seconds,
                  "Most time for the samples of a cell, over its passes")
      ->check(number_in(0.001, 1e6))
      ->capture_default_str();
  command
      .add_option("--passes", options.plan.passes,
                  "Processes a cell, and up to as many again for a noisy one; default: 3, or 1 "
                  "where --seconds is under 0.1")
      ->check(CLI::Range(1, 1000));
  command
      .add_option("--timeout", options.plan.timeout,
                  "Seconds after which a process is ended and its cell is timeout; 0 = none")
      ->check(number_in(0.0, 1e9))
      ->capture_default_str();
  command
      .add_option("--max-minutes", options.plan.max_minutes,
                  "After these begin no pass but a cell's first; cells with fewer passes are "
                  "marked, and the same command goes on; 0 = no end")
      ->check(number_in(0.0, 1e6))
      ->capture_default_str();
  command.add_option("--order-seed", options.plan.seed, "Of the order within a pass")
      ->check(seed_text())
      ->capture_default_str();
  command.add_flag("--no-pin", options.no_pin, "Let the system move threads between processors");
  command.add_flag("--again", options.plan.again,
                   "Measure anew the cells of --out that failed or stayed noisy");
  command.add_option("--flush", options.flush,
                     "On GPUs: overwrite this much before each sample, as 64MiB (their L2 cache)");
  add_device_option(command, options.plan.device);
  command.add_option("--dtype", options.request.dtype, "float32, float64 or bfloat16")
      ->capture_default_str();
  add_threads_option(command, options.plan.threads);
  command.add_option(
      "--out", options.out,
      "JSONL file, which --where alone does without; cells that it holds already are kept");
}

// What it is compared with.
void add_comparison_options(CLI::App& command, ProfileOptions& options) {
  CLI::Option* compare =
      command.add_option("--compare", options.compare,
                         "Earlier profile: say per cell whether it is slower; exit 1 where one is");
  command
      .add_option("--tolerance", options.tolerance,
                  "Of --compare: a change of up to this part is none")
      ->needs(compare)
      ->check(number_in(0.0, 1e6))
      ->capture_default_str();
  command.add_option("--peers", options.plan.peers,
                     "Measure other packages' layers too, by this program, between our own: "
                     "harness/profile/peers/profile_peers.py, which needs its packages");
  command.add_option("--child", options.child)->group("");  // of our own processes
}

// Of --where, after what it excludes.
void add_where_option(CLI::App& command, ProfileOptions& options) {
  CLI::Option* where = command.add_flag(
      "--where", options.where,
      "Of one step of a model, recorded in this process: its time by kind of work, part and op, "
      "with the rates reached; --out is optional, and --seconds are of a cell");
  for (const char* other : {"--compare", "--peers", "--passes", "--max-minutes", "--again",
                            "--timeout", "--order-seed", "--no-pin", "--flush", "--memory-limit"})
    where->excludes(other);
}

}  // namespace

void add_profile_command(CLI::App& app) {
  auto* command = app.add_subcommand("profile", "Measure memory and time per length");
  auto options = std::make_shared<ProfileOptions>();
  add_cell_options(*command, *options);
  add_measuring_options(*command, *options);
  add_comparison_options(*command, *options);
  add_where_option(*command, *options);
  command->callback([options] { run_profile_command(*options); });
}

}  // namespace lra
