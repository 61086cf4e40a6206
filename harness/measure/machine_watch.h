// What else runs on the machine during a measurement, and pinning threads to processors.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "results/statistics/interval.h"

namespace lra::measure {

/// The processors that this process may use, those that others use least first (watched for
/// `seconds`), in the system's order where that is equal; one of each core before a second of any.
std::vector<int> idle_processors(double seconds = 0.1);

/// `processors` in their order, but one of each core before the second of any. `core_of`: a name of
/// the core by processor; one that it lacks is a core of its own.
std::vector<int> one_a_core_first(const std::vector<int>& processors,
                                  const std::map<int, std::string>& core_of);

/// The environment in which a process keeps one OpenMP thread on each of these processors.
std::vector<std::pair<std::string, std::string>> pinned_environment(
    const std::vector<int>& processors);

/// Restricts this process to these processors, before it starts threads. False where the system
/// refuses.
bool pin_process(const std::vector<int>& processors);

/// Seconds of all threads of this process, since they began.
struct ReadySeconds {
  double ran = 0;
  double waited = 0;  // ready to run while others ran
};

/// Absent where the system does not say.
std::optional<ReadySeconds> ready_seconds();

/// Watches processors from its construction to stop().
class MachineWatch {
 public:
  /// `processors`: those that the work is kept on; empty: it is on any. `threads`: how many it has.
  MachineWatch(std::vector<int> processors, int64_t threads);

  struct Seen {
    std::optional<double> others;  // part, 0 to 1, of the time for which this process's threads
                                   // ran or were ready to, in which others ran; absent where the
                                   // system does not say
    std::optional<double> mhz;     // as the system says, mean over the processors at the end
    stats::Interval reference;     // ms of reference_work() before and after
    std::string noisy;             // why these are no quiet conditions; "" = they are
  };
  /// Time that others took above this part, or a reference that changes by it, is noise.
  static constexpr double kTolerance = 0.05;
  Seen stop() const;

 private:
  std::vector<int> processors_;  // all that the work can be on; empty: not known
  double reference_;             // milliseconds
  std::optional<ReadySeconds> ready_;
  int64_t stolen_;  // clock ticks
};

/// Milliseconds of a fixed chain of dependent operations, best of three: as the processor's clock
/// slows down, or another thread shares its core, it takes longer. About half a millisecond each.
double reference_work();

/// What one pair of clock readings around nothing takes, in milliseconds: the median of many.
double timer_overhead();

/// The most of memory this process has had resident, in MiB (VmHWM); absent where the system does
/// not say.
std::optional<double> process_peak_mib();

}  // namespace lra::measure
