// Event files that a run writes as it trains, and the time of day in its log.
#include <gtest/gtest.h>

#include <fstream>

#include "results/records/event_file.h"
#include "results/store/store.h"
#include "tests/harness/program.h"

namespace lra {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

std::vector<LogLine> log_of(const fs::path& run) {
  std::string reason;
  return parse_run_log(read_file(run / kMetricsFile), reason);
}

TEST(LiveLogTest, AnEventFileGrowsWithTheLog) {
  const Scratch scratch;
  const fs::path data = scratch.path() / "data", run = scratch.path() / "run",
                 board = scratch.path() / "board" / "a";
  prepare_tiny_listops(data);
  std::vector<std::string> words = tiny_train(data, run, "standard", /*steps=*/8);
  words.insert(words.end(), {"--tensorboard", board.string()});
  const double before = time_of_day();
  ASSERT_EQ(run_program(words).status, 0);
  const std::vector<LogLine> log = log_of(run);
  ASSERT_GE(log.size(), 4u);
  for (const LogLine& line : log) {
    ASSERT_TRUE(line.time);
    EXPECT_GE(*line.time, before);
    EXPECT_LE(*line.time, time_of_day());
  }
  std::string events;
  for (const LogLine& line : log) events += event_record(line);
  const std::vector<fs::path> files = files_in(board);
  ASSERT_EQ(files.size(), 1u);
  EXPECT_TRUE(files[0].filename().string().starts_with("events.out.tfevents.")) << files[0];
  EXPECT_TRUE(read_file(files[0]).ends_with(events));

  // TensorBoard would show the second of two runs alone.
  std::vector<std::string> other = tiny_train(data, scratch.path() / "other", "standard", 8);
  other.insert(other.end(), {"--tensorboard", board.string()});
  const ProgramResult second = run_program(other);
  EXPECT_NE(second.err.find("WARNING: --tensorboard " + board.string() + " holds events already"),
            std::string::npos)
      << second.err;
  for (const fs::path& file : files_in(board)) {
    if (file != files[0]) fs::remove(file);
  }

  // A run that goes on says all that it keeps once more, in a file of its own.
  fs::remove(run / kResultFile);
  fs::rename(files[0], board / "events.out.tfevents.0000000001.lra");
  const ProgramResult again = run_program(words);
  ASSERT_EQ(again.status, 0);
  EXPECT_EQ(again.err.find("WARNING"), std::string::npos) << again.err;
  const std::vector<fs::path> both = files_in(board);
  ASSERT_EQ(both.size(), 2u);
  EXPECT_TRUE(read_file(both[1]).ends_with(events)) << "with the times that they had";
}

TEST(LiveLogTest, AFolderThatCannotBeMadeIsSaid) {
  const Scratch scratch;
  prepare_tiny_listops(scratch.path() / "data");
  std::ofstream(scratch.path() / "file") << "x";
  std::vector<std::string> words =
      tiny_train(scratch.path() / "data", scratch.path() / "run", "standard", /*steps=*/6);
  words.insert(words.end(), {"--tensorboard", (scratch.path() / "file" / "a").string()});
  const ProgramResult result = run_program(words);
  EXPECT_EQ(result.status, 1) << result.err;
  EXPECT_NE(result.err.find("cannot make the folder"), std::string::npos) << result.err;
}

}  // namespace
}  // namespace lra
