// Whatever is killed, and whenever: all cells end, each once, as if nobody had touched them.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <sstream>

#include "harness/suite/suite_folder.h"
#include "tests/harness/suite/fixture.h"

namespace lra::suite {
namespace {

namespace fs = std::filesystem;

constexpr int kKills = 30;
constexpr const char* kAttentions =
    "standard,nystrom[num_landmarks=8],linformer[projected_length=8],linear,cosformer,fnet";

// A process of a suite in `out`: a runner, or the worker of a cell.
struct Victim {
  pid_t pid = 0;
  fs::path run;  // of a worker

  bool alive() const {
    const std::string state = stat(3);
    return !state.empty() && state != "Z" && state != "X";
  }
  // A worker that has something to lose: it is past a checkpoint of its own.
  bool in_training() const {
    std::error_code missing;
    const auto written = fs::last_write_time(run / kLastCheckpoint, missing);
    const std::string begun = stat(22);  // in hundredths of a second since the machine was started
    double up = 0;
    if (missing || begun.empty() || !(std::ifstream("/proc/uptime") >> up)) return false;
    const std::chrono::duration<double> age(up - std::stod(begun) / 100);
    return fs::file_time_type::clock::now() - written < age && !fs::exists(run / kResultFile);
  }

 private:
  // The n-th word of what the system says of it, counted from 1; "" where it is gone.
  std::string stat(int n) const {
    std::ifstream in(fmt::format("/proc/{}/stat", pid));
    std::string text, word;
    std::getline(in, text);             // which does not throw where the process ends meanwhile
    const size_t at = text.rfind(')');  // ends the second, the name
    std::istringstream words(at == std::string::npos ? "" : text.substr(at + 1));
    for (int i = 3; i <= n; ++i) words >> word;
    return words ? word : "";
  }
};

// The run of a cell's process, by its command line; "" for any other.
fs::path run_of(const std::vector<std::string>& words) {
  if (words.size() < 4 || words[2] != "child") return {};
  const json job = json::parse(words[3], nullptr, /*allow_exceptions=*/false);
  return job.is_object() ? job.value("run", "") : "";
}

// `command`: "suite" for runners, "train" for the processes of cells.
std::vector<Victim> processes_of(const fs::path& out, const std::string& command) {
  std::vector<Victim> found;
  std::error_code gone;
  for (const auto& entry : fs::directory_iterator("/proc", gone)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream in(entry.path() / "cmdline");
    std::vector<std::string> words;
    for (std::string word; std::getline(in, word, '\0');) words.push_back(word);
    if (words.size() < 2 || words[0] != "lra" || words[1] != "suite") continue;
    const Victim victim{.pid = static_cast<pid_t>(std::stol(name)), .run = run_of(words)};
    const bool ours = command == "train" ? victim.run.string().starts_with(out.string() + "/")
                                         : std::ranges::count(words, out.string()) > 0;
    if (ours) found.push_back(victim);
  }
  return found;
}

class SlowSuiteTorture : public SuiteTest {
 protected:
  void SetUp() override { write_budget(400, "64"); }
  std::vector<std::string> call(const std::string& name) const {
    return with(with_threads(words(name, kAttentions), 2), {"--seeds", "0,1", "--jobs", "2"});
  }

  // One suite, its runners, and what became of both.
  struct Trial {
    std::string name;
    std::mt19937 random;
    std::vector<fs::path> cells;  // their folders, within a suite's
    std::vector<std::unique_ptr<Program>> programs;
    std::map<fs::path, std::string> results = {};  // as they first appeared
    std::set<fs::path> hit = {};                   // cells whose workers were killed
    int kills = 0, of_runners = 0, in_training = 0, runners_died = 0;
  };

  void look(Trial& trial) const {
    for (const fs::path& cell : trial.cells) {
      const fs::path run = out(trial.name) / cell;
      if (final_status(run) == Status::ok) trial.results.emplace(run, read_file(run / kResultFile));
    }
  }

  // Starts the runners that are not at work.
  void start(Trial& trial) const {
    for (auto& program : trial.programs) {
      if (program && program->ended()) {
        const ProgramResult result = program->wait();
        trial.runners_died += result.status == 128 + SIGKILL ? 1 : 0;
        EXPECT_TRUE(result.status == 128 + SIGKILL || result.status == 1) << result.err;
        program.reset();
      }
      if (!program) program = std::make_unique<Program>(call(trial.name));
    }
  }

  std::vector<Victim> candidates(const Trial& trial, const std::string& kind, bool trains) const {
    std::vector<Victim> all = processes_of(out(trial.name), kind);
    if (trains) std::erase_if(all, [](const Victim& victim) { return !victim.in_training(); });
    return all;
  }

  // Waits until the next kill is due, and kills one process, if one can be had.
  void kill_one(Trial& trial) const {
    // A third of the kills are of runners; of those of workers, two thirds are in training.
    const std::string kind = trial.random() % 3 == 0 ? "suite" : "train";
    const bool trains = kind == "train" && trial.random() % 3 != 0;
    const auto due = static_cast<size_t>(trial.kills) * (trial.cells.size() - 2) / kKills;
    do {
      start(trial);
      look(trial);
      ASSERT_LT(trial.results.size(), trial.cells.size())
          << "over after " << trial.kills << " kills: give it more steps";
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    } while (trial.results.size() < due || candidates(trial, kind, trains).empty());
    std::this_thread::sleep_for(std::chrono::milliseconds(
        std::uniform_int_distribution<int>(0, trains ? 200 : 1000)(trial.random)));
    const std::vector<Victim> victims = candidates(trial, kind, trains);
    if (victims.empty()) return;
    const Victim& victim = victims[trial.random() % victims.size()];
    const bool mid = kind == "train" && victim.in_training();
    // Only what lived a moment ago was hit.
    if (!victim.alive() || kill(victim.pid, SIGKILL) != 0) return;
    for (int i = 0; i < 3000 && victim.alive(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ASSERT_FALSE(victim.alive()) << victim.pid;
    ++trial.kills;
    trial.of_runners += kind == "suite" ? 1 : 0;
    trial.in_training += mid ? 1 : 0;
    if (kind == "train") trial.hit.insert(victim.run);
  }

  // Calls the suite until one call says that all is done; returns how many it took.
  int finish(Trial& trial) const {
    // Killed as often as this, a cell may stand as crash: the next call takes it up again.
    int calls = 0;
    for (bool ended = false; !ended && calls < 5; ++calls) {
      ended = true;
      for (auto& program : trial.programs) {
        if (!program) program = std::make_unique<Program>(call(trial.name));
      }
      for (auto& program : trial.programs) {
        const int status = program->wait().status;
        trial.runners_died += status == 128 + SIGKILL ? 1 : 0;
        ended &= status == 0;
        program.reset();
      }
    }
    EXPECT_EQ(run_program(call(trial.name)).status, 0);
    return calls;
  }

  // Every cell is as in the suite that nothing disturbed; returns the kills of workers that their
  // runners saw.
  int expect_undisturbed(const Trial& trial) const {
    for (const auto& [run, text] : trial.results)
      EXPECT_EQ(read_file(run / kResultFile), text) << "ended once: " << run;
    int logged = 0;
    for (const fs::path& cell : trial.cells) {
      expect_same_run(out("whole") / cell, out(trial.name) / cell);
      int ok = 0;
      for (const json& one : read_lines(out(trial.name) / cell / kTriesFile)) {
        ok += one["ended"] == "ok" ? 1 : 0;
        logged += one["ended"].get<std::string>().starts_with("ended by signal 9") ? 1 : 0;
      }
      EXPECT_LE(ok, 1) << "ended once: " << cell;
    }
    return logged;
  }

  // Runs the suite with `count` runners at a time and kills 30 of their processes at random, spread
  // over the suite; a runner that was killed is called again, until one call says that all is done.
  void torture(const std::string& name, size_t count) {
    const auto seed = std::random_device{}();
    SCOPED_TRACE("seed of the kills: " + std::to_string(seed));
    Trial trial{.name = name,
                .random = std::mt19937(seed),
                .cells = {},
                .programs = std::vector<std::unique_ptr<Program>>(count)};
    for (const SuiteCell& cell : load_suite(out("whole")).cells)
      trial.cells.push_back(cell.run.lexically_relative(out("whole")));
    while (trial.kills < kKills) ASSERT_NO_FATAL_FAILURE(kill_one(trial));
    look(trial);
    const int calls = finish(trial), logged = expect_undisturbed(trial);
    const int of_workers = trial.kills - trial.of_runners;
    fmt::print(
        "{}: {} kills: {} of runners; {} of workers of {} cells, {} of them past a checkpoint, {} "
        "seen by their runners; {} calls more\n",
        name, trial.kills, trial.of_runners, of_workers, trial.hit.size(), trial.in_training,
        logged, calls);
    EXPECT_EQ(trial.runners_died, trial.of_runners) << "every kill of a runner ended one";
    EXPECT_GT(trial.of_runners, 0);
    EXPECT_GT(trial.in_training, kKills / 5);
    EXPECT_GE(trial.hit.size(), trial.cells.size() / 3);
    // A runner that was killed right after its worker has seen nothing.
    EXPECT_GT(logged, of_workers / 2);
  }
};

TEST_F(SlowSuiteTorture, OneRunnerOrTwoEndAsIfUndisturbed) {
  ASSERT_EQ(run_program(call("whole")).status, 0);
  ASSERT_EQ(load_suite(out("whole")).cells.size(), 12u);
  torture("one", 1);
  torture("two", 2);
}

}  // namespace
}  // namespace lra::suite
