// A suite on a cluster: Slurm does the queueing, the suite's folder the rest. Every job of an array
// is a runner for one cell; one last job measures and writes the report.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "harness/suite/job.h"
#include "harness/suite/status.h"
#include "harness/suite/suite.h"

namespace lra::suite {

/// What the jobs ask Slurm for; an empty word leaves the choice to Slurm.
struct SlurmOptions {
  std::string partition, account, time, mem, gpus;
  int64_t cpus = 0;         // of each job; 0 = the threads of a cell
  int64_t array_limit = 0;  // jobs of an array at a time; 0 = no limit
  // Seconds before the time limit, or a preemption, at which a job is asked to stop: it writes a
  // checkpoint and goes back to the queue.
  int64_t warning = 120;
  CellPolicy cell;
  bool report = true;  // whether a last job measures the profile and writes the report
};

/// A job script, and the file in OUT/slurm it goes to.
struct SlurmScript {
  std::filesystem::path path;
  std::string text;
};

/// The arrays over `cells` (of at most 1,000 jobs each, Slurm's usual limit), then the last job's
/// script, where there is to be one. `program` is what the jobs run, words of a command line.
/// Nothing is written.
std::vector<SlurmScript> slurm_scripts(const Suite& suite, const std::vector<size_t>& cells,
                                       const SlurmOptions& options,
                                       const std::vector<std::string>& program);

/// Writes the scripts, submits them (the last job to begin when all others have ended) and writes
/// OUT/slurm/jobs.json with the jobs' numbers, behind those of earlier submissions; returns them.
/// The last job waits for `queued` too, jobs of earlier submissions.
/// Throws Error with what sbatch said, and then cancels what it had submitted; host::Interrupted
/// after Ctrl-C, once the job under way is submitted and kept.
std::vector<std::string> submit(const Suite& suite, const std::vector<SlurmScript>& scripts,
                                const std::set<std::string>& queued = {});

/// Removes what submit() writes in OUT/slurm.
void remove_scripts(const std::filesystem::path& out);

/// OUT/slurm/jobs.json: what was submitted.
struct SlurmJobs {
  struct Array {
    std::string job;
    int64_t first = 0;  // cell of the array's task 0
  };
  std::vector<Array> arrays;
  std::string report;  // the last job; "" = none
};

/// A cell's job in the queue.
struct QueuedCell {
  std::string job;   // of the array
  std::string text;  // "PENDING (Resources)", "RUNNING on node7"
};

/// What the queue has of a suite that was submitted.
struct SlurmQueue {
  std::map<size_t, QueuedCell> cells;
  bool report = false;  // its last job
  std::string trouble;  // why nothing could be asked; "" where all is well or nothing was submitted
};

/// From squeue's lines "ARRAYJOB_TASK|STATE|REASON|NODES", of the last job "JOB|...".
SlurmQueue queue_of(const SlurmJobs& jobs, const std::string& squeue);

/// The same as squeue says it now.
SlurmQueue queue_of(const std::filesystem::path& out);

/// Fills `queue` of the cells of a suite; returns the `trouble` of queue_of().
std::string add_queue(SuiteStatus& status);

}  // namespace lra::suite
