#include "harness/host/launch.h"

#include <fmt/format.h>

#include <cstdlib>

#include "attention_variants/base/error.h"
#include "attention_variants/base/text.h"

namespace lra::host {
namespace {

// The variables of one launcher.
struct Variables {
  Launcher by;
  const char *rank, *size, *local_rank;
};

// mpirun comes first: inside a job of Slurm it starts its processes through srun.
constexpr Variables kVariables[] = {
    {Launcher::mpirun, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK"},
    {Launcher::mpirun, "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
    {Launcher::torchrun, "RANK", "WORLD_SIZE", "LOCAL_RANK"},
    // Not SLURM_NTASKS, which a batch script has too.
    {Launcher::srun, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"},
};

std::optional<int64_t> number(const Environment& environment, const char* name) {
  const std::optional<std::string> text = environment(name);
  if (!text) return std::nullopt;
  const int64_t value = whole_number<int64_t>(*text).value_or(-1);
  if (value < 0)
    throw UsageError(fmt::format("the environment variable {} should be a number from 0, not '{}'",
                                 name, *text));
  return value;
}

}  // namespace

std::optional<std::string> environment_variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (value == nullptr) return std::nullopt;
  return value;
}

std::optional<Launch> find_launch(const Environment& environment) {
  for (const Variables& variables : kVariables) {
    const std::optional<int64_t> size = number(environment, variables.size),
                                 rank = number(environment, variables.rank);
    const bool torchrun = variables.by == Launcher::torchrun;
    // RANK alone is an ordinary word, as is a rank of Slurm's outside a step.
    if (!size) continue;
    if (!rank) {
      throw UsageError(fmt::format(
          "{} is set to {} but {} is not: give each process its number, from 0 to {}, or unset {} "
          "for a process on its own",
          variables.size, *size, variables.rank, std::max<int64_t>(*size - 1, 0), variables.size));
    }
    if (*rank >= *size) {
      throw UsageError(fmt::format("{} should be below {} ({}), not {}", variables.rank,
                                   variables.size, *size, *rank));
    }
    if (*size == 1) return std::nullopt;
    const std::optional<int64_t> local_rank = number(environment, variables.local_rank);
    if (torchrun && !local_rank) {
      throw UsageError(fmt::format(
          "{} and {} are set but {} is not: give each process the number of its GPU on its host",
          variables.size, variables.rank, variables.local_rank));
    }
    return Launch{
        .by = variables.by, .rank = *rank, .size = *size, .local_rank = local_rank.value_or(0)};
  }
  return std::nullopt;
}

std::vector<std::string> launch_variables() {
  std::vector<std::string> names;
  for (const Variables& launcher : kVariables) names.emplace_back(launcher.size);
  return names;
}

}  // namespace lra::host
