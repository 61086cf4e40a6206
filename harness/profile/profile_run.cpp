#include "harness/profile/profile_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <random>
#include <set>

#include "attention_variants/base/text.h"
#include "harness/host/folder_lock.h"
#include "harness/host/memory.h"
#include "harness/host/progress.h"
#include "harness/host/runtime.h"
#include "harness/host/signals.h"
#include "harness/measure/machine_watch.h"
#include "harness/profile/child.h"
#include "harness/profile/kept_cells.h"
#include "harness/profile/pass_progress.h"
#include "harness/profile/passes.h"
#include "harness/profile/peers.h"
#include "harness/profile/store.h"
#include "results/analysis/profile_cells.h"
#include "results/statistics/bootstrap.h"

namespace lra::profile {
namespace {

// The processors to pin `threads` threads to, those that are idle first; none where there are too
// few.
std::vector<int> processors_for(int64_t threads) {
  std::vector<int> processors = measure::idle_processors();
  if (static_cast<int64_t>(processors.size()) < threads) return {};
  processors.resize(static_cast<size_t>(threads));
  std::ranges::sort(processors);
  return processors;
}

// Runs rounds of passes over the cells that are not done.
class ProfileRunner {
 public:
  explicit ProfileRunner(const ProfilePlan& plan)
      : plan_(plan),
        device_(host::parse_device(plan.device)),
        threads_(host::set_threads(plan.threads)),
        random_(plan.seed),
        lock_(host::FolderLock::of_file(plan.out)),
        store_(plan.out, keys()),
        planned_(planned_records(plan)),
        progress_(plan.cells.size()) {
    if (plan.pin) processors_ = processors_for(threads_);
    if (plan.again) store_.replace_failed(plan.dropped);
    for (size_t i = 0; i < plan.cells.size(); ++i) {
      const Profile* known = store_.find(i);
      if (known != nullptr) {
        check_same_work(*known, planned_[i], plan.out);
        if (is_done(*known, plan.passes)) {
          ++finished_;
          kept_failures_ += known->status == Status::ok ? 0 : 1;
          note_method(*known);
        } else {
          check_same_method(*known, method(), host::machine_of(device_), plan.out);
        }
      }
      count_passes(i, known);
    }
  }

  std::vector<Profile> run() {
    if (kept_failures_ > 0)
      host::say(
          fmt::format("{} holds {} without a result (oom, timeout and the like); "
                      "--again measures them anew",
                      plan_.out.string(), count_text(kept_failures_, "earlier cell")));
    for (const auto& [how, count] : kept_otherwise_)
      host::say(fmt::format("{} has {} of these cells measured {}; another --out has them as asked",
                            plan_.out.string(), count, how));
    if (finished_ < static_cast<int64_t>(plan_.cells.size())) {
      if (plan_.roofline) roofline_ = ask_roofline();
      host::say(fmt::format("{} cells, a process each pass; a noisy cell gets up to {} more",
                            plan_.cells.size(), plan_.passes));
    }
    std::vector<int64_t> lengths;  // in the order in which they are given
    for (const ProfileCell& cell : plan_.cells) {
      if (std::ranges::find(lengths, cell.length) == lengths.end()) lengths.push_back(cell.length);
    }
    for (int64_t round = 1;; ++round) {
      const auto begin = Clock::now();
      int64_t measured = 0;
      for (const int64_t length : lengths) measured += run_length(length);
      if (measured == 0) break;
      if (round == 1 && plan_.passes > 1)
        host::say(
            fmt::format("a pass over {} cells took {:.1f} min", measured, minutes_since(begin)));
    }
    if (late() && finished_ < static_cast<int64_t>(plan_.cells.size())) {
      host::say(fmt::format(
          "the time is over: {} of {} cells have fewer passes than {} and are marked; "
          "the same command goes on",
          plan_.cells.size() - static_cast<size_t>(finished_), plan_.cells.size(), plan_.passes));
    }
    return store_.records();
  }

 private:
  using Clock = std::chrono::steady_clock;
  static double minutes_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count() / 60;
  }
  bool late() const { return plan_.max_minutes > 0 && minutes_since(start_) > plan_.max_minutes; }

  std::vector<std::string> keys() const {
    std::vector<std::string> keys;
    for (const ProfileCell& cell : plan_.cells)
      keys.push_back(identity(profile_record(cell, device_, threads_)));
    return keys;
  }

  // Of a cell that has its passes: what is asked of it now and was not then.
  void note_method(const Profile& known) {
    const json now = method();
    std::string how = kept_method_difference(known, now, host::machine_of(device_));
    const auto seconds = known.method.find("seconds");
    if (how.empty() && seconds != known.method.end() && *seconds != now.at("seconds"))
      how = "with --seconds " + text_from_value(*seconds);
    if (!how.empty()) ++kept_otherwise_[how];
  }

  int64_t memory_limit() const {
    return plan_.memory_limit > 0 ? plan_.memory_limit : free_memory();
  }

  int64_t free_memory() const {
    return device_.is_cpu() ? host::default_memory_limit() : 0;  // a GPU refuses by itself
  }

  // One pass of each cell of that length that lacks one; says of how many.
  int64_t run_length(int64_t length) {
    std::vector<size_t> todo;
    for (size_t i = 0; i < plan_.cells.size(); ++i) {
      if (plan_.cells[i].length != length) continue;
      const Profile* record = store_.find(i);
      if (record == nullptr || !is_done(*record, plan_.passes)) todo.push_back(i);
    }
    std::ranges::shuffle(todo, random_);
    int64_t measured = 0;
    for (const size_t i : todo) {
      if (late() && store_.find(i) != nullptr) continue;
      run_pass(i);
      ++measured;
    }
    return measured;
  }

  void count_passes(size_t i, const Profile* record) {
    const int64_t had = record == nullptr ? 0 : std::max<int64_t>(pass_count(*record), 1);
    progress_.set(i, had, record == nullptr ? plan_.passes : passes_to_come(*record, plan_.passes));
  }

  void run_pass(size_t i) {
    const auto begin = Clock::now();
    Profile pass = measured_pass({.kind = MeasureKind::cell,
                                  .cell = plan_.cells[i],
                                  .device = plan_.device,
                                  .threads = threads_,
                                  .memory_limit = memory_limit(),
                                  .flush_bytes = plan_.flush_bytes,
                                  .seconds = plan_.seconds / static_cast<double>(plan_.passes),
                                  .processors = processors_});
    // Each process reads the file of a class anew.
    if (pass.package.empty()) check_same_work(planned_[i], pass, plan_.out);
    if (Profile* known = store_.find(i)) {
      if (!pass.package.empty()) check_same_package(*known, pass, plan_.out);
      merge_pass(std::move(pass), *known);
    } else {
      store_.insert(std::move(pass), i);
    }
    Profile& record = *store_.find(i);
    settle(record, method(), roofline_, plan_.passes);
    store_.write();
    progress_.took(i, 60 * minutes_since(begin));
    count_passes(i, &record);
    tell(record);
  }

  Profile measured_pass(const MeasureRequest& request) const {
    const bool ours = request.cell.peer.empty();
    const MeasureAnswer answer = run_in_child(request, plan_.timeout, ours ? "" : plan_.peers);
    Profile pass = profile_record(request.cell, device_, threads_);
    if (answer.value.is_null()) {
      pass.status = *answer.status;
      pass.reason = answer.reason;
    } else if (ours) {
      Machine machine = pass.machine;  // a pinned process sees fewer processors
      pass = parse_profile(answer.value);
      pass.machine = std::move(machine);
    } else {
      try {
        pass = peer_record(answer.value, pass);
      } catch (const Error& error) {
        pass.status = Status::crash;
        pass.reason = error.what();
      }
    }
    return pass;
  }

  json method() const {
    return {{"seconds", plan_.seconds},
            {"passes", plan_.passes},
            {"precision", measure::MeasureLimits{}.precision},
            {"interval", "95 %, bootstrap of the median of the passes' medians"},
            {"order_seed", plan_.seed},
            {"pinned", processors_.empty() ? json(nullptr) : json(processors_)},
            {"l2_flush_bytes", plan_.flush_bytes},
            {"timer_ms", timer_ms_}};
  }

  std::optional<Roofline> ask_roofline() const {
    if (plan_.cells.empty()) return std::nullopt;
    const MeasureAnswer answer = run_in_child({.kind = MeasureKind::roofline,
                                               .cell = plan_.cells.front(),
                                               .device = plan_.device,
                                               .threads = threads_,
                                               // The machine's rates are not the cells': a small
                                               // copy would stay in a cache.
                                               .memory_limit = free_memory(),
                                               .seconds = plan_.seconds,
                                               .processors = processors_},
                                              plan_.timeout);
    if (answer.value.is_null()) {
      host::say("not known what this machine does at best: " + answer.reason);
      return std::nullopt;
    }
    const Roofline roofline = parse_roofline(answer.value);
    host::say(
        fmt::format("this machine at best: {:.0f} GFLOP/s (matrix product), {:.1f} GB/s (copy)",
                    roofline.gflops, roofline.gigabytes_per_second));
    return roofline;
  }

  void tell(const Profile& record) {
    const std::string from = record.package.empty() ? "" : " (" + record.package + ")";
    const std::string what = fmt::format("{}{} N={} {} {}", record.attention.label, from,
                                         record.length, record.scope, record.mode);
    if (is_done(record, plan_.passes)) ++finished_;
    const std::string count = progress_.count(), eta = progress_.eta();
    if (record.status != Status::ok) {
      host::say(fmt::format("{} {}: {} ({}){}", count, what, record.status, record.reason, eta));
      return;
    }
    const auto estimate = stats::median_over_passes(passes_of(*record.time, plan_.passes));
    const bool noisy = is_done(record, plan_.passes) && !record.noisy.empty();
    const std::optional<double>& peak = record.memory->peak;
    const std::string error =
        record.time->ci95 ? fmt::format(" ±{:.1f} %", 100 * estimate.precision()) : "";
    host::say(fmt::format("{} {}, pass {}: {:.4g} ms{}{}{}{}", count, what, pass_count(record),
                          record.time->median, error,
                          peak ? fmt::format(", {:.1f} MiB", *peak) : "",
                          noisy ? ", noisy: " + record.noisy : "", eta));
  }

  const ProfilePlan& plan_;
  const torch::Device device_;
  const int64_t threads_;
  const Clock::time_point start_ = Clock::now();
  const double timer_ms_ = measure::timer_overhead();
  std::mt19937_64 random_;
  std::vector<int> processors_;
  host::FolderLock lock_;  // before what is in the file is read: it is written as a whole
  ProfileStore store_;
  std::vector<Profile> planned_;  // the records of the cells before anything is measured
  PassProgress progress_;
  std::optional<Roofline> roofline_;
  int64_t finished_ = 0, kept_failures_ = 0;
  std::map<std::string, int64_t> kept_otherwise_;  // how they were measured -> cells
};

}  // namespace

std::vector<Profile> planned_records(const ProfilePlan& plan) {
  const torch::Device device = host::parse_device(plan.device);
  std::vector<Profile> records;
  for (const ProfileCell& cell : plan.cells)
    records.push_back(profile_record(cell, device, plan.threads));
  return records;
}

std::vector<Profile> profiles_of(const ProfilePlan& plan, std::span<const Profile> records) {
  std::vector<Profile> chosen;
  std::set<std::string> known;
  for (const Profile& planned : planned_records(plan)) {
    const std::string key = identity(planned);
    const auto found = std::ranges::find(records, key, identity);
    if (found != records.end() && known.insert(key).second) chosen.push_back(*found);
  }
  return chosen;
}

std::vector<Profile> run_profile(const ProfilePlan& plan) {
  try {
    return ProfileRunner(plan).run();
  } catch (const host::Interrupted&) {
    if (!std::filesystem::exists(plan.out))
      throw host::Interrupted("stopped; nothing was measured yet");
    throw host::Interrupted(fmt::format(
        "stopped; {} keeps what was measured, and the same command goes on", plan.out.string()));
  }
}

}  // namespace lra::profile
