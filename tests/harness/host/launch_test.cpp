// How a process learns that it is one of several.
#include "harness/host/launch.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/support/scratch.h"

namespace lra {
namespace {

using Variables = std::map<std::string, std::string>;

std::optional<host::Launch> launch(const Variables& variables) {
  return host::find_launch([&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  });
}

std::string refusal(const Variables& variables) {
  return error_text<UsageError>([&] { launch(variables); });
}

TEST(FindLaunch, KnowsTheLaunchers) {
  const struct {
    Variables variables;
    std::string by;
    int64_t rank, size, local_rank;
  } cases[] = {
      {{{"OMPI_COMM_WORLD_RANK", "3"},
        {"OMPI_COMM_WORLD_SIZE", "4"},
        {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}},
       "mpirun",
       3,
       4,
       1},
      {{{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}, "mpirun", 0, 2, 0},
      {{{"RANK", "5"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}}, "torchrun", 5, 8, 1},
      {{{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_LOCALID", "1"}},
       "srun",
       1,
       2,
       1},
      // mpirun inside a job, through srun: one srun task a host.
      {{{"SLURM_PROCID", "0"},
        {"SLURM_STEP_NUM_TASKS", "1"},
        {"OMPI_COMM_WORLD_RANK", "1"},
        {"OMPI_COMM_WORLD_SIZE", "2"},
        {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}},
       "mpirun",
       1,
       2,
       1},
  };
  for (const auto& c : cases) {
    const auto found = launch(c.variables);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(to_string(found->by), c.by);
    EXPECT_EQ(found->rank, c.rank);
    EXPECT_EQ(found->size, c.size);
    EXPECT_EQ(found->local_rank, c.local_rank);
  }
}

TEST(FindLaunch, IsAloneOutsideOfThem) {
  EXPECT_FALSE(launch({}));
  EXPECT_FALSE(launch({{"RANK", "3"}})) << "an ordinary word";
  EXPECT_FALSE(launch({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}}));
  EXPECT_FALSE(launch({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}))
      << "a batch script, which srun did not start";
}

TEST(FindLaunch, RefusesHalfOfWhatItNeeds) {
  EXPECT_EQ(refusal({{"WORLD_SIZE", "4"}}),
            "WORLD_SIZE is set to 4 but RANK is not: give each process its number, from 0 to 3, "
            "or unset WORLD_SIZE for a process on its own");
  EXPECT_EQ(refusal({{"WORLD_SIZE", "4"}, {"RANK", "4"}, {"LOCAL_RANK", "0"}}),
            "RANK should be below WORLD_SIZE (4), not 4");
  EXPECT_EQ(refusal({{"WORLD_SIZE", "4"}, {"RANK", "1"}}),
            "WORLD_SIZE and RANK are set but LOCAL_RANK is not: give each process the number of "
            "its GPU on its host");
  EXPECT_EQ(refusal({{"WORLD_SIZE", "many"}, {"RANK", "1"}}),
            "the environment variable WORLD_SIZE should be a number from 0, not 'many'");
}

TEST(LaunchVariables, WithoutThemAChildIsAlone) {
  Variables all;
  for (const std::string name :
       {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "PMI_RANK",
        "PMI_SIZE", "RANK", "WORLD_SIZE", "LOCAL_RANK", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"})
    all[name] = name.ends_with("SIZE") || name.ends_with("TASKS") ? "2" : "1";
  ASSERT_TRUE(launch(all));
  for (const std::string& name : host::launch_variables()) all.erase(name);
  EXPECT_FALSE(launch(all));
}

}  // namespace
}  // namespace lra
