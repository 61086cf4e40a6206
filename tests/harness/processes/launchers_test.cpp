// What a launcher leaves in the environment, and the library for NCCL.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>

#include "harness/processes/processes.h"
#include "harness/suite/cell.h"
#include "tests/harness/program.h"
#include "tests/harness/suite/fixture.h"

namespace lra {
namespace {

using namespace suite;

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

class LaunchVariablesTest : public testing::Test {
 protected:
  Scratch scratch_;
};

TEST_F(LaunchVariablesTest, OfTorchrunAreForGpus) {
  prepare_tiny_listops(scratch_.path() / "data");
  const Words words = tiny_train(scratch_.path() / "data", scratch_.path() / "r", "standard");
  const ScopedVariable size("WORLD_SIZE", "2");
  ProgramResult result = run_program(words);
  EXPECT_EQ(result.status, 2);
  EXPECT_TRUE(result.err.starts_with("lra: WORLD_SIZE is set to 2 but RANK is not: "))
      << result.err;
  EXPECT_EQ(std::ranges::count(result.err, '\n'), 1);

  const ScopedVariable rank("RANK", "0"), local("LOCAL_RANK", "0");
  result = run_program(words);
  EXPECT_EQ(result.status, 2);
  EXPECT_EQ(result.err,
            "lra: WORLD_SIZE=2 starts processes on GPUs, with --device cuda; on CPUs use mpirun "
            "-n 2 lra ..., or unset WORLD_SIZE for a process on its own\n");
  EXPECT_FALSE(fs::exists(scratch_.path() / "r"));

  const std::string version = run_program({"--version"}).out;
  if (version.find("nccl none") == std::string::npos) {
    result = run_program(with(words, {"--device", "cuda"}));
    EXPECT_NE(result.status, 0);
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
  }
}

// On a host with fewer GPUs than processes the first of them has its own.
TEST_F(LaunchVariablesTest, AProcessThatCannotStartSaysSoItself) {
  prepare_tiny_listops(scratch_.path() / "data");
  const ScopedVariable size("WORLD_SIZE", "1000"), rank("RANK", "999"), local("LOCAL_RANK", "999"),
      address("MASTER_ADDR", "127.0.0.1"), port("MASTER_PORT", "29511");
  const Words words = tiny_train(scratch_.path() / "data", scratch_.path() / "r", "standard");
  ProgramResult result = run_program(with(words, {"--device", "cuda"}));
  EXPECT_EQ(result.status, 1);
  EXPECT_TRUE(result.err.starts_with("lra: process 999 of 1000: ")) << result.err;
  EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
  result = run_program(words);
  EXPECT_EQ(result.status, 2);
  EXPECT_EQ(result.err, "") << "what the first process says too";
}

TEST(NcclLibraryDeathTest, HasAllThatItNeedsOfLibTorch) {
  const fs::path library = fs::path(LRA_PROGRAM).parent_path() / "lra_nccl.so";
  EXPECT_EQ(fs::exists(library), nccl_version() != "none");
  if (!fs::exists(library)) return;
  // In a process of its own: with it comes LibTorch's CUDA, and LibTorch refuses a second
  // accelerator beside that, even the tests' recorded one.
  EXPECT_EXIT(
      {
        void* const loaded = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
        const bool found = loaded != nullptr && dlsym(loaded, "lra_make_nccl_group") != nullptr;
        if (!found) std::fprintf(stderr, "%s\n", dlerror());
        _exit(found ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

// The cells of a suite are processes on their own, whatever started the suite.
class SuiteUnderALauncherTest : public SuiteTest {};

TEST_F(SuiteUnderALauncherTest, ItsCellsAreAlone) {
  const ScopedVariable size("WORLD_SIZE", "2"), rank("RANK", "0"), local("LOCAL_RANK", "0");
  const ProgramResult result = run_program(words("s", "standard"));
  ASSERT_EQ(result.status, 0) << result.text();
  const Result record = parse_result(read_json(run("s", "standard") / kResultFile));
  EXPECT_EQ(record.status, Status::ok);
  EXPECT_EQ(record.training.processes, 1);
}

}  // namespace
}  // namespace lra
