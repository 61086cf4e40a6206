// Whatever is killed, and whenever: all cells end, each once, as if nobody had touched them.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <memory>
#include <random>

#include "harness/suite.h"
#include "tests/harness/suite_fixture.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

constexpr int kKills = 30;
constexpr const char* kAttentions =
    "standard,nystrom[num_landmarks=8],linformer[projected_length=8],linear,cosformer,fnet";

// The processes of a suite in `out` that run this command of the program.
std::vector<pid_t> processes_of(const fs::path& out, const std::string& command) {
  std::vector<pid_t> found;
  std::error_code gone;
  for (const auto& entry : fs::directory_iterator("/proc", gone)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream in(entry.path() / "cmdline");
    const std::string line{std::istreambuf_iterator<char>(in), {}};
    const bool ours = line.starts_with(std::string("lra\0", 4) + command) &&
                      line.find(out.string()) != std::string::npos;
    if (ours) found.push_back(static_cast<pid_t>(std::stol(name)));
  }
  return found;
}

class SlowSuiteTorture : public SuiteTest {
 protected:
  void SetUp() override { write_budget(400, "64"); }
  std::vector<std::string> call(const std::string& name) const {
    return with(with_threads(words(name, kAttentions), 2), {"--seeds", "0,1", "--jobs", "2"});
  }

  // Runs the suite with `runners` at a time and kills 30 of their processes at random; a runner
  // that was killed is called again, until one call says that all is done.
  void torture(const std::string& name, size_t count) {
    const auto seed = std::random_device{}();
    SCOPED_TRACE("seed of the kills: " + std::to_string(seed));
    std::mt19937 random(seed);
    std::vector<std::unique_ptr<Program>> programs(count);
    std::map<fs::path, std::string> results;  // as they first appeared
    int kills = 0, runners_killed = 0;
    std::vector<fs::path> cells;  // their folders, within a suite's
    for (const SuiteCell& cell : load_suite(out("whole")).cells)
      cells.push_back(cell.run.lexically_relative(out("whole")));
    const auto look = [&] {
      for (const fs::path& cell : cells) {
        const fs::path run = out(name) / cell;
        if (ended_status(run) == "ok") results.emplace(run, read_file(run / kResultFile));
      }
    };
    const auto start = [&] {
      for (auto& program : programs) {
        if (program && program->ended()) {
          const ProgramResult result = program->wait();
          EXPECT_TRUE(result.status == 128 + SIGKILL || result.status == 1) << result.err;
          program.reset();
        }
        if (!program) program = std::make_unique<Program>(call(name));
      }
    };
    while (kills < kKills) {
      // A third of the kills are of runners. However busy the machine: there is one to be killed.
      const std::string kind = random() % 3 == 0 ? "suite" : "train";
      do {
        start();
        look();
        ASSERT_LT(results.size(), 12u) << "over after " << kills << " kills: give it more steps";
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      } while (processes_of(out(name), kind).empty());
      std::this_thread::sleep_for(
          std::chrono::milliseconds(std::uniform_int_distribution<int>(0, 1000)(random)));
      const std::vector<pid_t> victims = processes_of(out(name), kind);
      if (victims.empty() || kill(victims[random() % victims.size()], SIGKILL) != 0) continue;
      ++kills;
      runners_killed += kind == "suite" ? 1 : 0;
    }
    look();
    EXPECT_GT(runners_killed, 0);
    EXPECT_LT(runners_killed, kKills);
    // Killed as often as this, a cell may stand as crash: the next call takes it up again.
    int calls = 0;
    for (bool ended = false; !ended && calls < 5; ++calls) {
      ended = true;
      for (auto& program : programs) {
        if (!program) program = std::make_unique<Program>(call(name));
      }
      for (auto& program : programs) {
        ended &= program->wait().status == 0;
        program.reset();
      }
    }
    EXPECT_EQ(run_program(call(name)).status, 0);
    for (const auto& [run, text] : results)
      EXPECT_EQ(read_file(run / kResultFile), text) << "ended once: " << run;
    fmt::print("{} kills, {} of them of runners; {} calls more\n", kills, runners_killed, calls);
    for (const fs::path& cell : cells) expect_same_run(out("whole") / cell, out(name) / cell);
  }
};

TEST_F(SlowSuiteTorture, OneRunnerOrTwoEndAsIfUndisturbed) {
  ASSERT_EQ(run_program(call("whole")).status, 0);
  ASSERT_EQ(load_suite(out("whole")).cells.size(), 12u);
  torture("one", 1);
  torture("two", 2);
}

}  // namespace
}  // namespace lra
