// lra suite submit: the scripts, what is asked of Slurm, and its queue in the status.
// tests/checks/slurm runs them on a real one.
#include "harness/suite/slurm.h"

#include <cstdlib>

#include "tests/harness/suite/fixture.h"

namespace lra::suite {
namespace {

namespace fs = std::filesystem;

// A PATH of one's own for as long as this lives, with stand-ins for Slurm's programs.
class OwnPath {
 public:
  explicit OwnPath(const fs::path& folder) : before_(std::getenv("PATH")) {
    fs::create_directories(folder);
    setenv("PATH", (folder.string() + ":/bin:/usr/bin").c_str(), 1);
    // Nothing of a Slurm that is installed here.
    for (const char* name : {"sbatch", "squeue", "scancel"})
      write(folder / name, "#!/bin/sh\nexit 127\n");
  }
  ~OwnPath() { setenv("PATH", before_.c_str(), 1); }
  OwnPath(const OwnPath&) = delete;
  OwnPath& operator=(const OwnPath&) = delete;
  static void write(const fs::path& path, const std::string& text) {
    write_file(path, text);
    fs::permissions(path, fs::perms::owner_all);
  }

 private:
  std::string before_;
};

class SuiteSlurmTest : public SuiteTest {
 protected:
  std::vector<std::string> submission(const std::vector<std::string>& more) const {
    auto w = words("s");
    w.insert(w.begin() + 1, {"submit", "--slurm"});
    return with(w, more);
  }
  fs::path bin_ = scratch_.path() / "bin";
};

TEST_F(SuiteSlurmTest, ADryRunPrintsScriptsThatBashTakes) {
  const ProgramResult result = run_program(
      with_threads(submission({"--dry-run", "--partition", "long", "--time", "2:00:00", "--mem",
                               "8G", "--account", "me", "--cpus", "4", "--array-limit", "10",
                               "--warning", "300", "--timeout", "7200"}),
                   4));
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_FALSE(fs::exists(out("s"))) << "nothing is written";
  for (const char* line :
       {"#SBATCH --array=0-1%10", "#SBATCH --requeue", "#SBATCH --signal=B:TERM@300",
        "#SBATCH --partition=long", "#SBATCH --time=2:00:00", "#SBATCH --mem=8G",
        "#SBATCH --account=me", "#SBATCH --cpus-per-task=4", "--only \"$cell\"",
        "--resume --device cpu --threads 4 --timeout 7200 --tries 3", "scontrol requeue"})
    EXPECT_TRUE(contains(result.out, line)) << line << "\n" << result.out;
  EXPECT_FALSE(contains(result.out, "--gpus"));
  const fs::path script = scratch_.path() / "script.sh";
  write_file(script, result.out.substr(result.out.find('\n') + 1));
  EXPECT_EQ(std::system(("bash -n '" + script.string() + "'").c_str()), 0);
}

TEST_F(SuiteSlurmTest, ProcessorsThatAreNotTheThreadsAreRefused) {
  expect_refusal(submission({"--cpus", "4"}), 2, "--cpus 4 and --threads 1: a cell has as many");
  EXPECT_FALSE(fs::exists(out("s")));
}

TEST_F(SuiteSlurmTest, WhatNoLineOfADirectiveCanHoldIsRefused) {
  for (const std::string& account :
       {std::string("me\n#SBATCH --wrap=x"), std::string("a b"), std::string("a\"b")}) {
    const ProgramResult refused = run_program(submission({"--dry-run", "--account", account}));
    EXPECT_EQ(refused.status, 2) << refused.out;
    EXPECT_TRUE(contains(refused.err, "--account '")) << refused.err;
  }
}

// A % of a folder's own is none of Slurm's.
TEST_F(SuiteSlurmTest, LogsAreOneAJob) {
  std::vector<std::string> all = submission({"--dry-run"});
  std::string& folder = *(std::ranges::find(all, "--out") + 1);
  folder += "/50%A";
  const ProgramResult dry = run_program(all);
  ASSERT_EQ(dry.status, 0) << dry.err;
  EXPECT_TRUE(contains(dry.out, "/50%%A/slurm/%A_%a.log\"\n")) << dry.out;
  EXPECT_TRUE(contains(dry.out, "#SBATCH --chdir=\"" + fs::current_path().string() + "\"\n"))
      << dry.out;
}

TEST_F(SuiteSlurmTest, AGpuOfThisHostIsRefused) {
  const std::vector<std::vector<std::string>> asked = {{}, {"--gpus", "1"}};
  for (const auto& gpus : asked)
    expect_refusal(submission(with({"--device", "cuda:1"}, gpus)), 2,
                   "--device cuda:1: the cluster chooses the GPU of a job; give --gpus");
  EXPECT_FALSE(fs::exists(out("s")));
}

TEST_F(SuiteSlurmTest, SubmitsArraysAndAReportThatFollowsThem) {
  const OwnPath path(bin_);
  const fs::path asked = scratch_.path() / "asked";
  OwnPath::write(bin_ / "sbatch", "#!/bin/sh\necho \"$@\" >> '" + asked.string() + "'\nwc -l < '" +
                                      asked.string() + "'\n");
  OwnPath::write(bin_ / "squeue",
                 "#!/bin/sh\necho '1_0|RUNNING|None|node7'\necho '1_1|PENDING|Resources|'\n"
                 "echo '9_1|RUNNING|None|node8'\n");
  const ProgramResult result = run_program(submission({}));
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out, "2 cells to run, in jobs 1, 2\n");
  const fs::path folder = out("s") / "slurm";
  EXPECT_EQ(read_file(asked), "--parsable " + (folder / "cells-0.sh").string() +
                                  "\n--parsable --dependency=afterany:1 " +
                                  (folder / "report.sh").string() + "\n");
  EXPECT_TRUE(contains(read_file(folder / "cells-0.sh"), "#SBATCH --cpus-per-task=1\n"));
  EXPECT_EQ(read_json(folder / "jobs.json"), (json{{"schema", "lra.slurm/1"},
                                                   {"arrays", {{{"job", "1"}, {"first", 0}}}},
                                                   {"report", "2"}}));

  const ProgramResult status =
      run_program({"suite", "status", "--out", out("s").string(), "--json"});
  ASSERT_EQ(status.status, 0) << status.err;
  const json cells = json::parse(status.out)["cells"];
  EXPECT_EQ(cells[0]["queue"], "RUNNING on node7");
  EXPECT_EQ(cells[1]["queue"], "PENDING (Resources)");
  const ProgramResult table = run_program({"suite", "status", "--out", out("s").string()});
  EXPECT_TRUE(contains(table.out, "PENDING (Resources)")) << table.out;

  // What is in the queue, or has ended, is not submitted again.
  const std::vector<std::string> again = {"suite",    "submit", "--slurm",        "--dry-run",
                                          "--resume", "--out",  out("s").string()};
  const ProgramResult alone = run_program(again);
  EXPECT_EQ(alone.status, 0) << alone.err;
  EXPECT_TRUE(contains(alone.err, "2 cells are left out, with jobs in the queue already"))
      << alone.err;
  EXPECT_TRUE(contains(alone.out, "report.sh") && !contains(alone.out, "cells-")) << alone.out;
  expect_refusal(with(again, {"--only", "0"}), 1,
                 "--only 0: these cells have jobs in the queue already: lra suite status");
  OwnPath::write(bin_ / "squeue",
                 "#!/bin/sh\necho '1_0|RUNNING|None|node7'\necho '1_1|PENDING|Resources|'\n"
                 "echo '2|PENDING|Dependency|'\n");
  expect_refusal(again, 1, "all that is left of the suite has jobs in the queue already");
  OwnPath::write(bin_ / "squeue", "#!/bin/sh\necho '1_0|RUNNING|None|node7'\n");
  const ProgramResult other = run_program(again);
  EXPECT_TRUE(contains(other.out, "#SBATCH --array=1\n")) << other.out;
  EXPECT_TRUE(contains(other.err, "1 cell is left out, with jobs in the queue")) << other.err;
  OwnPath::write(bin_ / "squeue", "#!/bin/sh\nexit 1\n");
  EXPECT_TRUE(contains(run_program(again).err, "cells that have a job may get a second one"));
  OwnPath::write(bin_ / "squeue", "#!/bin/sh\n");
  ASSERT_EQ(run_program({"suite", "--out", out("s").string(), "--resume", "--only", "0"}).status,
            0);
  const ProgramResult rest = run_program(again);
  EXPECT_TRUE(contains(rest.out, "#SBATCH --array=1\n")) << rest.out;

  // And what was submitted before is remembered.
  ASSERT_EQ(run_program({"suite", "submit", "--slurm", "--resume", "--out", out("s").string(),
                         "--only", "1"})
                .status,
            0);
  const json arrays = read_json(folder / "jobs.json")["arrays"];
  ASSERT_EQ(arrays.size(), 2u);
  EXPECT_EQ(arrays[0]["job"], "1");
  EXPECT_EQ(arrays[1]["job"], "3");

  // The report waits for what is in the queue, too.
  OwnPath::write(bin_ / "squeue", "#!/bin/sh\necho '1_0|COMPLETING|None|node7'\n");
  ASSERT_EQ(
      run_program({"suite", "submit", "--slurm", "--resume", "--out", out("s").string()}).status,
      0);
  EXPECT_TRUE(contains(read_file(asked), "--dependency=afterany:1:4 ")) << read_file(asked);
  OwnPath::write(bin_ / "sbatch", "#!/bin/sh\necho 'no partition' >&2\nexit 1\n");
  EXPECT_EQ(
      run_program({"suite", "submit", "--slurm", "--resume", "--out", out("s").string()}).status,
      1);
  EXPECT_EQ(read_json(folder / "jobs.json")["arrays"].size(), 3u);
}

TEST_F(SuiteSlurmTest, TakesTheCellsTriesAndThreadsThatItIsGiven) {
  const ProgramResult one = run_program(submission({"--dry-run", "--only", "1", "--tries", "7"}));
  ASSERT_EQ(one.status, 0) << one.err;
  EXPECT_TRUE(contains(one.out, "#SBATCH --array=1\n")) << one.out;
  EXPECT_TRUE(contains(one.out, " --tries 7")) << one.out;
  EXPECT_FALSE(contains(one.out, "report.sh")) << "--only is without profile and report";
  EXPECT_TRUE(contains(run_program(submission({"--dry-run", "--only", "2"})).err,
                       "--only should be a comma list of cells from 0 to 1"));

  const OwnPath path(bin_);
  OwnPath::write(bin_ / "sbatch", "#!/bin/sh\necho 5\n");
  const ProgramResult submitted = run_program(submission({"--only", "1"}));
  EXPECT_EQ(submitted.out, "1 cells to run, in job 5\n") << submitted.err;
  EXPECT_EQ(
      read_json(out("s") / "slurm" / "jobs.json"),
      (json{
          {"schema", "lra.slurm/1"}, {"arrays", {{{"job", "5"}, {"first", 0}}}}, {"report", ""}}));
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{}, std::vector<std::string>{"--dry-run"}}) {
    const ProgramResult other = run_program(with_threads(submission(more), 3));
    EXPECT_EQ(other.status, 2) << other.out;
    EXPECT_TRUE(contains(other.err, "have 1 thread each")) << other.err;
  }
}

TEST_F(SuiteSlurmTest, MaxHoursAreOfJobsThatRunAtATime) {
  ASSERT_EQ(run_program(with(words("known"), {"--only", "0-1"})).status, 0);
  const OwnPath path(bin_);
  OwnPath::write(bin_ / "sbatch", "#!/bin/sh\necho 5\n");
  const auto fraction = [&](const std::string& name, const std::vector<std::string>& more) {
    auto w = words(name);
    w.insert(w.begin() + 1, {"submit", "--slurm"});
    const ProgramResult result =
        run_program(with(with(w, {"--records", (out("known") / "runs").string(), "--set",
                                  "training.steps=400000000", "--max-hours", "1"}),
                         more));
    EXPECT_EQ(result.status, 0) << result.err;
    return read_json(out(name) / kSuiteFile)["cut"]["fraction"].get<double>();
  };
  const double one = fraction("one", {"--array-limit", "1"}), all = fraction("all", {});
  EXPECT_GT(all, 1.05 * one) << "two cells at a time have more steps each";
  EXPECT_LE(all, 2.05 * one);
}

TEST_F(SuiteSlurmTest, WhatSlurmRefusesIsOneLineAndLeavesNoJobs) {
  const OwnPath path(bin_);
  const ProgramResult none = run_program(submission({}));
  EXPECT_EQ(none.status, 1);
  EXPECT_TRUE(contains(none.err, "there is no sbatch here: submit on a host of the cluster"))
      << none.err;

  OwnPath::write(bin_ / "sbatch",
                 "#!/bin/sh\ncase \"$*\" in *report.sh) echo 'sbatch: error: no' >&2; exit 1;; "
                 "esac\necho 41\n");
  const fs::path cancelled = scratch_.path() / "cancelled";
  OwnPath::write(bin_ / "scancel", "#!/bin/sh\necho \"$@\" > '" + cancelled.string() + "'\n");
  const ProgramResult refused = run_program(submission({}));
  EXPECT_EQ(refused.status, 1);
  EXPECT_TRUE(
      contains(refused.err, "report.sh: sbatch: error: no (the jobs before it were cancelled)"))
      << refused.err;
  EXPECT_EQ(read_file(cancelled), "41\n");
  EXPECT_FALSE(fs::exists(out("s") / "slurm" / "jobs.json"));

  EXPECT_TRUE(contains(run_program({"suite", "submit", "--budget", "smoke"}).err, "give --slurm"));
  EXPECT_TRUE(
      contains(run_program(submission({"--jobs", "2"})).err, "--array-limit says how many"));
}

// Slurm has taken it, whatever becomes of who asked.
TEST_F(SuiteSlurmTest, AJobThatIsBeingSubmittedIsKeptWhenStopped) {
  const OwnPath path(bin_);
  OwnPath::write(bin_ / "sbatch", "#!/bin/sh\nkill -INT $PPID\nsleep 0.3\necho 41\n");
  const ProgramResult stopped = run_program(submission({}));
  EXPECT_EQ(stopped.status, 130) << stopped.err;
  EXPECT_TRUE(
      contains(stopped.err, "stopped with 1 of 2 jobs submitted; take them back with scancel 41"))
      << stopped.err;
  const json arrays = read_json(out("s") / "slurm" / "jobs.json")["arrays"];
  ASSERT_EQ(arrays.size(), 1u);
  EXPECT_EQ(arrays[0]["job"], "41");
}

TEST_F(SuiteSlurmTest, ManyCellsAreSeveralArrays) {
  Suite suite;
  suite.request.out = scratch_.path();
  suite.request.threads = 2;
  suite.request.device = "cuda";
  suite.cells.resize(2500);
  const auto scripts =
      slurm_scripts(suite, {0, 1, 2, 5, 999, 2000, 2499}, {.gpus = "1"}, {"/opt/it's/lra"});
  ASSERT_EQ(scripts.size(), 3u);
  EXPECT_EQ(scripts[0].path, scratch_.path() / "slurm" / "cells-0.sh");
  EXPECT_TRUE(contains(scripts[0].text, "#SBATCH --array=0-2,5,999\n"));
  EXPECT_TRUE(contains(scripts[0].text, "'/opt/it'\\''s/lra' suite"));
  EXPECT_TRUE(contains(scripts[0].text, "#SBATCH --gpus=1\n"));
  EXPECT_TRUE(contains(scripts[1].text, "#SBATCH --array=0,499\n"));
  EXPECT_TRUE(contains(scripts[1].text, "SLURM_ARRAY_TASK_ID + 2000"));
  EXPECT_EQ(scripts[2].path.filename(), "report.sh");
  EXPECT_FALSE(contains(scripts[2].text, "--array"));

  const SlurmJobs jobs{.arrays = {{.job = "7", .first = 2000}}, .report = "8"};
  const auto queue =
      queue_of(jobs, "7_499|RUNNING|None|n1\nhalf a line\n7_x|PENDING|None|\n8|R|N|");
  ASSERT_EQ(queue.cells.size(), 1u);
  EXPECT_EQ(queue.cells.at(2499).text, "RUNNING on n1");
  EXPECT_EQ(queue.cells.at(2499).job, "7");
  EXPECT_TRUE(queue.report);
}

}  // namespace
}  // namespace lra::suite
