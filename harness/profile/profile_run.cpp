#include "harness/profile/profile_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <random>

#include "attention_variants/base/files.h"
#include "harness/host/child.h"
#include "harness/host/memory.h"
#include "harness/host/progress.h"
#include "harness/host/runtime.h"
#include "harness/host/signals.h"
#include "harness/measure/machine_watch.h"
#include "harness/measure/roofline.h"
#include "harness/profile/peers.h"
#include "results/analysis/profile_cells.h"
#include "results/records/store.h"
#include "results/statistics/bootstrap.h"

namespace lra {
namespace {

// Samples of one process: more only make files larger.
constexpr int64_t kMostSamples = 300;
// An interval wider than this part of its median, to either side, is no result to rely on.
constexpr double kWide = 0.1;
// Of Profile::method: why a cell has fewer passes than it should.
constexpr const char* kStopped = "stopped";

// What a child is asked.
struct Request {
  std::string kind;  // "cell", "roofline" or "bytes"
  ProfileCell cell;
  std::string device;
  int64_t threads = 0, memory_limit = 0, flush_bytes = 0;
  double seconds = 0;
  std::vector<int> processors;  // empty: not pinned
};

json request_json(const Request& request) {
  return {{"kind", request.kind},
          {"cell", cell_json(request.cell)},
          {"device", request.device},
          {"threads", request.threads},
          {"memory_limit", request.memory_limit},
          {"flush_bytes", request.flush_bytes},
          {"seconds", request.seconds},
          {"processors", request.processors}};
}

Request parse_request(const json& value) {
  return {.kind = value.at("kind"),
          .cell = parse_cell(value.at("cell")),
          .device = value.at("device"),
          .threads = value.at("threads"),
          .memory_limit = value.at("memory_limit"),
          .flush_bytes = value.at("flush_bytes"),
          .seconds = value.at("seconds"),
          .processors = value.at("processors")};
}

struct Answer {
  json value;  // null where there is none; then also:
  Status status = Status::ok;
  std::string reason;
};

// `program`: another than this one, for a peer; "" = this one.
Answer run_in_child(const Request& request, double timeout, const std::string& program = "") {
  std::vector<std::string> words = {"--child", request_json(request).dump()};
  if (program.empty()) words.insert(words.begin(), "profile");
  const ChildStatus ended =
      run_child(words, {.environment = request.processors.empty()
                                           ? std::vector<std::pair<std::string, std::string>>{}
                                           : pinned_environment(request.processors),
                        .timeout = timeout,
                        .capture = true,
                        .program = program,
                        .oom_preferred = true});
  if (ended.timed_out)
    return {.value = nullptr,
            .status = Status::timeout,
            .reason = fmt::format("took longer than {:g} s", timeout)};
  if (ended.out_of_memory) {
    return {
        .value = nullptr, .status = Status::oom, .reason = "out of memory: killed by the kernel"};
  }
  const std::string said = last_line(ended.err);
  if (ended.signal != 0 || ended.exit != 0) {
    return {.value = nullptr,
            .status = Status::crash,
            .reason = fmt::format("{}{}", ended.text(), said.empty() ? "" : ": " + said)};
  }
  try {
    return {.value = parse_json(last_line(ended.out), "a measuring process's answer"),
            .status = Status::ok,
            .reason = ""};
  } catch (const Error& error) {
    return {.value = nullptr, .status = Status::crash, .reason = error.what()};
  }
}

class ProfileRunner {
 public:
  explicit ProfileRunner(const ProfilePlan& plan)
      : plan_(plan),
        device_(parse_device(plan.device)),
        threads_(use_threads(plan.threads)),
        random_(plan.seed),
        records_(read_profile(plan.out)) {
    {
      const AtomicFile writable(plan.out);
    }  // a folder that is missing or read-only is found before the first cell
    if (plan.pin) {
      processors_ = idle_processors();
      if (static_cast<int64_t>(processors_.size()) < threads_)
        processors_.clear();
      else
        processors_.resize(static_cast<size_t>(threads_));
      std::ranges::sort(processors_);
    }
    if (plan.again) {
      std::erase_if(records_, [](const Profile& record) {
        return record.status != Status::ok || !record.noisy.empty();
      });
    }
    for (const ProfileCell& cell : plan.cells) {
      const Profile record = profile_record(cell, device_, threads_);
      const std::string key = identity(record);
      keys_.push_back(key);
      if (const Profile* known = find(key)) finished_ += done(*known) ? 1 : 0;
    }
  }

  std::vector<Profile> run() {
    if (finished_ < static_cast<int64_t>(plan_.cells.size())) roofline_ = ask_roofline();
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
        say(fmt::format("a pass over {} cells took {:.1f} min", measured, minutes_since(begin)));
    }
    if (late() && finished_ < static_cast<int64_t>(plan_.cells.size())) {
      say(fmt::format(
          "the time is over: {} of {} cells have fewer passes than {} and are marked; "
          "the same command goes on",
          plan_.cells.size() - static_cast<size_t>(finished_), plan_.cells.size(), plan_.passes));
    }
    return records_;
  }

 private:
  Profile* find(const std::string& key) {
    const auto it = std::ranges::find_if(
        records_, [&](const Profile& record) { return identity(record) == key; });
    return it == records_.end() ? nullptr : &*it;
  }

  static int64_t quiet_passes(const Profile& record) {
    if (!record.time) return 0;
    return std::ranges::count_if(record.time->passes,
                                 [](const ProfilePass& pass) { return pass.noisy.empty(); });
  }
  static int64_t passes(const Profile& record) {
    return record.time ? static_cast<int64_t>(record.time->passes.size()) : 0;
  }

  // Whether a cell is as good as it will get. Records without passes are of other programs, or of
  // an older version of this one.
  bool done(const Profile& record) const {
    if (record.status != Status::ok || !record.time || record.time->passes.empty()) return true;
    if (passes(record) >= 2 * plan_.passes || record.method.contains(kStopped)) return true;
    return quiet_passes(record) >= plan_.passes && record.noisy.empty();
  }

  using Clock = std::chrono::steady_clock;
  static double minutes_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count() / 60;
  }
  bool late() const { return plan_.max_minutes > 0 && minutes_since(start_) > plan_.max_minutes; }

  // One pass of each cell of that length that lacks one; says of how many.
  int64_t run_length(int64_t length) {
    std::vector<size_t> todo;
    for (size_t i = 0; i < plan_.cells.size(); ++i) {
      if (plan_.cells[i].length != length) continue;
      const Profile* record = find(keys_[i]);
      if (record == nullptr || !done(*record)) todo.push_back(i);
    }
    std::ranges::shuffle(todo, random_);
    int64_t measured = 0;
    for (const size_t i : todo) {
      if (late() && find(keys_[i]) != nullptr) continue;
      run_pass(i);
      ++measured;
    }
    return measured;
  }

  void run_pass(size_t i) {
    const ProfileCell& cell = plan_.cells[i];
    Request request{
        .kind = "cell",
        .cell = cell,
        .device = plan_.device,
        .threads = threads_,
        .memory_limit = plan_.memory_limit > 0 ? plan_.memory_limit : default_memory_limit(),
        .flush_bytes = plan_.flush_bytes,
        .seconds = plan_.seconds / static_cast<double>(plan_.passes),
        .processors = processors_};
    Profile pass = measured_pass(request);
    Profile* known = find(keys_[i]);
    if (known == nullptr) {
      insert(std::move(pass), i);
    } else {
      merge(std::move(pass), *known);
    }
    Profile& record = *find(keys_[i]);
    settle(record);
    write();
    tell(record);
  }

  Profile measured_pass(const Request& request) const {
    const bool ours = request.cell.peer.empty();
    const Answer answer = run_in_child(request, plan_.timeout, ours ? "" : plan_.peers);
    Profile pass = profile_record(request.cell, device_, threads_);
    if (answer.value.is_null()) {
      pass.status = answer.status;
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

  // Records stand in the plan's order, after those of other plans.
  void insert(Profile record, size_t i) {
    auto at = records_.end();
    for (size_t later = i + 1; later < keys_.size() && at == records_.end(); ++later)
      at = std::ranges::find_if(
          records_, [&](const Profile& other) { return identity(other) == keys_[later]; });
    records_.insert(at, std::move(record));
  }

  static void merge(Profile pass, Profile& record) {
    if (pass.status != Status::ok) {
      // It ran before: what ended it now is the machine's doing, and no more is tried.
      record.method[kStopped] =
          fmt::format("a later process ended in {}: {}", pass.status, pass.reason);
      return;
    }
    if (pass.method.contains(kGpuClocks)) {
      json& clocks = record.method[kGpuClocks];
      for (const json& one : pass.method[kGpuClocks]) clocks.push_back(one);
    }
    ProfileTime& time = *record.time;
    time.samples.insert(time.samples.end(), pass.time->samples.begin(), pass.time->samples.end());
    time.passes.push_back(pass.time->passes.front());
    const auto larger = [](std::optional<double>& a, const std::optional<double>& b) {
      if (b && (!a || *b > *a)) a = b;
    };
    record.memory->peak = std::max(record.memory->peak, pass.memory->peak);
    larger(record.memory->process_peak, pass.memory->process_peak);
    larger(record.memory->reserved, pass.memory->reserved);
    larger(record.memory->device, pass.memory->device);
  }

  // What follows from all samples so far.
  void settle(Profile& record) const {
    record.roofline = roofline_;
    json now = method();
    for (const char* kept : {kStopped, kGpuClocks}) {
      if (record.method.contains(kept)) now[kept] = record.method[kept];
    }
    record.method = std::move(now);
    if (record.status != Status::ok || !record.time) return;
    ProfileTime& time = *record.time;
    const auto used = passes_of(time, plan_.passes);
    std::vector<double> samples;
    for (const auto& pass : used) samples.insert(samples.end(), pass.begin(), pass.end());
    const stats::BootstrapEstimate estimate = stats::median_over_passes(used);
    const stats::MedianEstimate plain = stats::median_estimate(samples);
    time.median = estimate.value;
    time.ci95 = estimate.ci95;
    time.min = plain.min;
    time.iqr = plain.iqr;
    record.noisy = noise(record, estimate);
  }

  std::string noise(const Profile& record, const stats::BootstrapEstimate& estimate) const {
    if (record.method.contains(kStopped)) return record.method[kStopped];
    if (passes(record) < plan_.passes)
      return fmt::format("only {} of {} passes", passes(record), plan_.passes);
    if (quiet_passes(record) < plan_.passes) {
      for (const ProfilePass& pass : record.time->passes) {
        if (!pass.noisy.empty()) return pass.noisy;
      }
    }
    if (estimate.precision() > kWide)
      return fmt::format("the interval is ±{:.0f} %", 100 * estimate.precision());
    return "";
  }

  json method() const {
    return {{"seconds", plan_.seconds},
            {"passes", plan_.passes},
            {"precision", MeasureLimits{}.precision},
            {"interval", "95 %, bootstrap of the median of the passes' medians"},
            {"order_seed", plan_.seed},
            {"pinned", processors_.empty() ? json(nullptr) : json(processors_)},
            {"l2_flush_bytes", plan_.flush_bytes},
            {"timer_ms", timer_ms_}};
  }

  std::optional<Roofline> ask_roofline() const {
    if (plan_.cells.empty()) return std::nullopt;
    const int64_t limit = plan_.memory_limit > 0 ? plan_.memory_limit : default_memory_limit();
    const Answer answer = run_in_child({.kind = "roofline",
                                        .cell = plan_.cells.front(),
                                        .device = plan_.device,
                                        .threads = threads_,
                                        .memory_limit = limit,
                                        .seconds = plan_.seconds,
                                        .processors = processors_},
                                       plan_.timeout);
    if (answer.value.is_null()) return std::nullopt;
    const Roofline roofline{.gflops = answer.value.at("gflops"),
                            .gigabytes_per_second = answer.value.at("gigabytes_per_second")};
    say(fmt::format("this machine at best: {:.0f} GFLOP/s (matrix product), {:.1f} GB/s (copy)",
                    roofline.gflops, roofline.gigabytes_per_second));
    return roofline;
  }

  void write() const {
    std::string text;
    for (const Profile& record : records_) text += make_profile(record).dump() + "\n";
    write_file(plan_.out, text);
  }

  void tell(const Profile& record) {
    const std::string from = record.package.empty() ? "" : " (" + record.package + ")";
    const std::string what = fmt::format("{}{} N={} {} {}", record.attention.label, from,
                                         record.length, record.scope, record.mode);
    if (done(record)) ++finished_;
    const std::string count = fmt::format("{}/{}", finished_, plan_.cells.size());
    if (record.status != Status::ok) {
      say(fmt::format("{} {}: {} ({})", count, what, record.status, record.reason));
      return;
    }
    const auto estimate = stats::median_over_passes(passes_of(*record.time, plan_.passes));
    say(fmt::format("{} {}, pass {}: {:.4g} ms ±{:.1f} %, {:.1f} MiB{}", count, what,
                    passes(record), record.time->median, 100 * estimate.precision(),
                    record.memory->peak,
                    done(record) && !record.noisy.empty() ? ", noisy: " + record.noisy : ""));
  }

  const ProfilePlan& plan_;
  const torch::Device device_;
  const int64_t threads_;
  const Clock::time_point start_ = Clock::now();
  const double timer_ms_ = timer_overhead();
  std::mt19937_64 random_;
  std::vector<int> processors_;
  std::vector<Profile> records_;
  std::vector<std::string> keys_;  // of the plan's cells
  std::optional<Roofline> roofline_;
  int64_t finished_ = 0;
};

}  // namespace

std::vector<Profile> read_profile(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) return {};
  const Records records = find_records({file});
  const bool other = !records.results.empty() || !records.fidelity.empty();
  if (!records.bad.empty() || other) {
    throw Error(fmt::format("{} is not a profile of this program ({}); choose another --out",
                            file.string(),
                            other ? "it holds other records" : records.bad.front().reason));
  }
  return records.profiles;
}

std::vector<Profile> run_profile(const ProfilePlan& plan) {
  try {
    return ProfileRunner(plan).run();
  } catch (const Interrupted&) {
    throw Interrupted(fmt::format(
        "stopped; {} keeps what was measured, and the same command goes on", plan.out.string()));
  }
}

void run_profile_child(const std::string& word) {
  const Request request = parse_request(parse_json(word, "--child"));
  // Before the first thread: what each starts with is what it inherits.
  if (!request.processors.empty()) pin_process(request.processors);
  const torch::Device device = parse_device(request.device);
  use_threads(request.threads);
  if (device.is_cpu() && request.memory_limit > 0)
    limit_address_space(request.memory_limit, request.threads);
  json answer;
  if (request.kind == "roofline") {
    const Roofline roofline = measure_roofline(device, dtype_of(request.cell.dtype),
                                               request.memory_limit, request.seconds);
    answer = {{"gflops", roofline.gflops}, {"gigabytes_per_second", roofline.gigabytes_per_second}};
  } else if (request.kind == "bytes") {
    answer = {{"bytes", peak_bytes_of_call(request.cell, device, request.memory_limit)}};
  } else {
    answer = make_profile(profile_cell(request.cell, device, request.threads, request.memory_limit,
                                       {.seconds = request.seconds,
                                        .fewest = 1,
                                        .most = kMostSamples,
                                        .flush_bytes = request.flush_bytes},
                                       request.processors));
  }
  fmt::print("{}\n", answer.dump());
}

int64_t largest_batch(const ProfileCell& cell, const ProfilePlan& plan, int64_t memory_limit) {
  const auto bytes = [&](int64_t batch) -> std::optional<int64_t> {
    Request request{.kind = "bytes",
                    .cell = cell,
                    .device = plan.device,
                    .threads = plan.threads > 0 ? plan.threads : 1,
                    .memory_limit = memory_limit};
    request.cell.batch = batch;
    const Answer answer = run_in_child(request, plan.timeout);
    if (answer.value.is_null()) return std::nullopt;
    return answer.value.at("bytes").get<int64_t>();
  };
  // Bytes are a constant and a part that grows with the batch: two small batches tell both.
  const std::optional<int64_t> one = bytes(1), two = bytes(2);
  if (!one || *one > memory_limit) return 0;
  int64_t batch = 1;
  while (batch < 65536 && two &&
         *one + (2 * batch - 1) * std::max<int64_t>(*two - *one, 0) <= memory_limit)
    batch *= 2;
  return batch;
}

}  // namespace lra
