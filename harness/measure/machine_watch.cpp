#include "harness/measure/machine_watch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

#include "harness/host/kernel_facts.h"
#include "results/statistics/statistics.h"

namespace lra::measure {
namespace {

using Clock = std::chrono::steady_clock;

struct Ticks {
  int64_t busy = 0;    // on anything
  int64_t stolen = 0;  // taken by a hypervisor for its other guests
};

std::map<int, Ticks> processor_ticks() {
  std::map<int, Ticks> all;
  std::ifstream in("/proc/stat");
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    if (!name.starts_with("cpu") || name.size() == 3) continue;
    int64_t user = 0, nice = 0, system = 0, idle = 0, wait = 0, irq = 0, soft = 0, steal = 0;
    words >> user >> nice >> system >> idle >> wait >> irq >> soft >> steal;
    all[std::stoi(name.substr(3))] = {user + nice + system + irq + soft + steal, steal};
  }
  return all;
}

int64_t stolen_ticks(const std::vector<int>& processors) {
  const auto all = processor_ticks();
  int64_t sum = 0;
  for (const int processor : processors) {
    const auto it = all.find(processor);
    if (it != all.end()) sum += it->second.stolen;
  }
  return sum;
}

// Processors of one core share what computes.
std::map<int, std::string> cores(const std::vector<int>& processors) {
  std::map<int, std::string> core_of;
  for (const int processor : processors) {
    std::string siblings;
    std::ifstream in(
        fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", processor));
    if (std::getline(in, siblings)) core_of[processor] = siblings;
  }
  return core_of;
}

// The processors of work that is kept on none, where it has threads for all of them.
std::vector<int> all_used_by(int64_t threads) {
  std::vector<int> allowed = host::allowed_processors();
  if (std::ssize(allowed) > threads) allowed.clear();
  return allowed;
}

std::optional<double> first_number(const std::string& file) {
  double value = 0;
  if (std::ifstream(file) >> value) return value;
  return std::nullopt;
}

std::optional<double> megahertz(const std::vector<int>& processors) {
  double sum = 0;
  int64_t count = 0;
  for (const int processor : processors) {
    if (const auto khz = first_number(
            fmt::format("/sys/devices/system/cpu/cpu{}/cpufreq/scaling_cur_freq", processor))) {
      sum += *khz / 1000;
      ++count;
    }
  }
  if (count == 0) {
    std::ifstream in("/proc/cpuinfo");
    for (std::string line; std::getline(in, line);) {
      if (!line.starts_with("cpu MHz")) continue;
      sum += std::stod(line.substr(line.find(':') + 1));
      ++count;
    }
  }
  if (count == 0) return std::nullopt;
  return sum / static_cast<double>(count);
}

}  // namespace

std::optional<ReadySeconds> ready_seconds() {
  std::error_code error;
  ReadySeconds sum;
  int64_t count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", error)) {
    double ran = 0, waited = 0;  // nanoseconds
    if (!(std::ifstream(task.path() / "schedstat") >> ran >> waited)) continue;
    sum.ran += ran * 1e-9;
    sum.waited += waited * 1e-9;
    ++count;
  }
  if (count == 0) return std::nullopt;
  return sum;
}

std::vector<int> idle_processors(double seconds) {
  std::vector<int> processors = host::allowed_processors();
  const auto before = processor_ticks();
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  auto after = processor_ticks();
  for (const auto& [processor, ticks] : before) after[processor].busy -= ticks.busy;
  std::ranges::stable_sort(processors, {}, [&](int processor) { return after[processor].busy; });
  return one_a_core_first(processors, cores(processors));
}

std::vector<int> one_a_core_first(const std::vector<int>& processors,
                                  const std::map<int, std::string>& core_of) {
  std::map<std::string, int> met;              // of each core
  std::vector<std::pair<int, int>> by_number;  // which of its core's, and the processor
  for (const int processor : processors) {
    const auto it = core_of.find(processor);
    by_number.emplace_back(it == core_of.end() ? 0 : met[it->second]++, processor);
  }
  std::ranges::stable_sort(by_number, {}, &std::pair<int, int>::first);
  std::vector<int> sorted;
  for (const auto& [number, processor] : by_number) sorted.push_back(processor);
  return sorted;
}

std::vector<std::pair<std::string, std::string>> pinned_environment(
    const std::vector<int>& processors) {
  std::vector<std::string> places;
  for (const int processor : processors) places.push_back(fmt::format("{{{}}}", processor));
  return {{"OMP_PLACES", fmt::format("{}", fmt::join(places, ","))},
          {"OMP_PROC_BIND", "true"},
          {"OMP_DYNAMIC", "false"}};
}

bool pin_process(const std::vector<int>& processors) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int processor : processors) CPU_SET(processor, &set);
  return sched_setaffinity(0, sizeof set, &set) == 0;
}

double reference_work() {
  double best = 0;
  for (int attempt = 0; attempt < 3; ++attempt) {
    const auto begin = Clock::now();
    uint64_t value = 1;
    for (int i = 0; i < 500'000; ++i) value = value * 6364136223846793005u + 1442695040888963407u;
    const double ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
    // The result must be seen to be used, or the loop would be left out.
    volatile uint64_t sink = value;
    (void)sink;
    if (attempt == 0 || ms < best) best = ms;
  }
  return best;
}

MachineWatch::MachineWatch(std::vector<int> processors, int64_t threads)
    : processors_(processors.empty() ? all_used_by(threads) : std::move(processors)),
      reference_(reference_work()),
      ready_(ready_seconds()),
      stolen_(stolen_ticks(processors_)) {}

MachineWatch::Seen MachineWatch::stop() const {
  const std::optional<ReadySeconds> ready = ready_seconds();
  // A hypervisor's account comes in whole ticks: one or two more say nothing.
  const int64_t stolen = stolen_ticks(processors_) - stolen_;
  const double tick = 1.0 / static_cast<double>(sysconf(_SC_CLK_TCK));
  Seen seen;
  seen.mhz = megahertz(processors_);
  seen.reference = {reference_, reference_work()};
  if (ready && ready_) {
    const double lost =
        ready->waited - ready_->waited + (stolen > 2 ? static_cast<double>(stolen) * tick : 0);
    const double all = ready->ran - ready_->ran + lost;
    if (all > 0) seen.others = std::clamp(lost / all, 0.0, 1.0);
  }
  if (seen.others.value_or(0) > kTolerance) {
    seen.noisy = fmt::format("others took {:.0f} % of the processors' time", 100 * *seen.others);
  } else if (std::abs(seen.reference.high / seen.reference.low - 1) > kTolerance) {
    seen.noisy = fmt::format("the processor's speed changed by {:+.0f} %",
                             100 * (seen.reference.low / seen.reference.high - 1));
  }
  return seen;
}

double timer_overhead() {
  std::vector<double> samples(1001);
  for (double& sample : samples) {
    const auto begin = Clock::now();
    sample = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  }
  return stats::quantile(samples, 0.5);
}

std::optional<double> process_peak_mib() {
  const std::optional<int64_t> kilobytes = host::number_after("/proc/self/status", "VmHWM:");
  if (!kilobytes) return std::nullopt;
  return static_cast<double>(*kilobytes) / 1024;
}

}  // namespace lra::measure
