// How this process was started: alone, or as one of several that train together, by mpirun, srun or
// torchrun. Known from environment variables, before anything else starts.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "attention_variants/base/enum_names.h"

namespace lra::host {

enum class Launcher { mpirun, srun, torchrun };
constexpr auto names(Launcher) { return std::array{"mpirun", "srun", "torchrun"}; }

/// One of several processes that were started together.
struct Launch {
  Launcher by = Launcher::mpirun;
  int64_t rank = 0;        // which one this is
  int64_t size = 1;        // how many there are: at least 2
  int64_t local_rank = 0;  // which one on this host: the GPU it takes
};

/// The value of an environment variable; nothing where it is not set.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

/// This process's environment.
std::optional<std::string> environment_variable(const std::string& name);

/// What the launcher says; nothing for a process on its own, a launcher's only one included.
/// Reads OMPI_COMM_WORLD_* (Open MPI), PMI_* (MPICH and its derivatives), RANK, WORLD_SIZE and
/// LOCAL_RANK (torchrun) and SLURM_STEP_NUM_TASKS, SLURM_PROCID and SLURM_LOCALID (srun), the first
/// set that is there. Throws UsageError where one of a set is missing or no number.
std::optional<Launch> find_launch(const Environment& environment = environment_variable);

/// The variables by which find_launch() finds other processes; without them a child runs alone.
std::vector<std::string> launch_variables();

}  // namespace lra::host
