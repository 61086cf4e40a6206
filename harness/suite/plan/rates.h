// What a cell's recipe costs, from what was measured of the same one.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/suite/suite.h"
#include "lra/config/protocol.h"
#include "results/records/profile.h"
#include "results/store/store.h"

namespace lra::suite {

struct Rates {
  double step = 0;                   // seconds
  std::optional<double> evaluation;  // of dev, seconds
  std::optional<double> memory_mib;
  std::string from;            // what says so
  Status status = Status::ok;  // or what such a cell will end as
};

/// What rates are read from.
struct RateRecords {
  /// Reads what OUT holds of runs and probes, and the folders and files `others`; of runs that had
  /// one before them, both.
  RateRecords(const Suite& suite, const std::vector<std::filesystem::path>& others);

  const Suite& suite;
  const Protocol protocol;               // the suite's
  Machine here;                          // records of other machines are passed over
  std::map<std::string, TaskData> data;  // by task
  Records own, others;
};

/// The best that is known of a cell's recipe: a run of this suite, a training step measured alone,
/// a run elsewhere.
std::optional<Rates> known_rates(const SuiteCell& cell, const RateRecords& from);

/// From the training steps that `profiles` hold.
std::optional<Rates> rates_from_profiles(const SuiteCell& cell, const RateRecords& from,
                                         const std::vector<Profile>& profiles);

/// The batch of one forward and backward pass.
int64_t pass_batch(const Settings& settings);

/// The evaluations of dev in a run.
int64_t evaluation_count(const TrainingOptions& training);

}  // namespace lra::suite
