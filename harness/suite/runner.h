// Running a suite's cells: claims them and runs each in a process of its own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "harness/suite/job.h"
#include "harness/suite/suite.h"

namespace lra::suite {

/// How this runner works; none of it changes a result.
struct RunnerOptions {
  std::vector<std::string> devices = {"cpu"};  // each has as many cells at a time
  int64_t jobs = 1;                            // cells at a time: a multiple of the devices
  int64_t threads = 1;                         // of the profile; a cell's are the suite's
  bool threads_given = false;                  // rather than all that there are
  CellPolicy cell;
  std::vector<size_t> only;  // these cells alone, without profile and report; empty = everything
  std::string go_on = "the same command with --resume";  // what goes on after a stop

  /// Where cell `i` of those that run at a time is: on each device before on any a second one.
  const std::string& device_of(size_t i) const { return devices[i % devices.size()]; }

  /// How many cells may run at a time on a device.
  int64_t most_sharing() const;

  /// How many of `cells` run at a time on a GPU; 1 on a CPU, whose processors they share out.
  int64_t sharing(int64_t cells) const;
};

/// Runs the cells that have not ended and are not claimed, each in a process of its own, and waits
/// for those that others hold. `data`: folders of prepared data by task. Returns the number of
/// cells that did not end as "ok". Throws Interrupted after Ctrl-C.
int64_t run_cells(const Suite& suite, const RunnerOptions& options,
                  const std::map<std::string, std::filesystem::path>& data);

}  // namespace lra::suite
