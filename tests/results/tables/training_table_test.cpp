// What the tables of training costs show, and what they keep apart.
#include <gtest/gtest.h>

#include "results/tables/accuracy_table.h"
#include "tests/results/examples.h"
#include "tests/results/tables/table_text.h"

namespace lra {
namespace {

TEST(TrainingTable, ShowsMediansOverSeeds) {
  Result a = example_result("nystrom", 0), b = example_result("nystrom", 1),
         c = example_result("nystrom", 2);
  b.training.steps_per_second = 12.0;
  c.training.steps_per_second = 99.0;
  const auto tables = training_tables(std::vector<Result>{a, b, c});
  ASSERT_EQ(tables.size(), 1u);
  EXPECT_EQ(tables[0].rows,
            (std::vector<std::vector<std::string>>{{"listops", "nystrom", "12 [10, 99]", "655360",
                                                    "300.5", "200000", "1000", "100", "ok"}}));
  EXPECT_TRUE(contains(to_text(tables[0]), "[least, greatest] steps/s over the seeds"));
  c.training.steps_per_second = 10.5;
  EXPECT_EQ(training_tables(std::vector<Result>{a, c})[0].rows[0][2], "10.2")
      << "they hardly differ";
}

TEST(TrainingTable, SaysWhatDoesNotCompare) {
  Result a = example_result("nystrom"), b = example_result("linear");
  const auto text = [&] {
    std::string all;
    for (const Table& table : training_tables(std::vector<Result>{a, b})) all += to_text(table);
    return all;
  };
  EXPECT_FALSE(contains(text(), "not all trained by one program"));
  a.software["torch"] = "2.4.0";
  b.software["torch"] = "2.11.0";
  a.training.evaluation_peak_memory_mib = 200;
  EXPECT_TRUE(contains(text(), "not all trained by one program: torch 2.11.0 and 2.4.0"));
  a.software["lra"] = "0.0.3";
  b.software["lra"] = "0.1.0";
  EXPECT_TRUE(contains(text(), ", this program's versions 0.0.3 and 0.1.0"));
  EXPECT_TRUE(contains(text(), "peaks of some of these runs hold evaluations"));
  a.machine.processor_model = "family 25";
  b.machine.processor_model = "family 26";
  EXPECT_EQ(training_tables(std::vector<Result>{a, b}).size(), 2u);
  EXPECT_TRUE(contains(text(), "on Xeon, 2 cores, 8 GiB, family 26, 1 thread"));
}

// Its speed and memory are of its part on this machine, its seconds of both.
TEST(TrainingTable, LeavesOutTheSecondsOfARunThatWentOnHere) {
  Result a = example_result("nystrom", 0), b = example_result("nystrom", 1);
  b.training.measured_from = 900;
  b.training.seconds = 36'000;
  const Table both = training_tables(std::vector<Result>{a, b})[0];
  EXPECT_EQ(both.rows[0][7], "100");
  EXPECT_TRUE(contains(to_text(both), b.path + " went on here at step 900"));
  const Table alone = training_tables(std::vector<Result>{b})[0];
  EXPECT_EQ(alone.rows[0][7], "–");
  EXPECT_NE(alone.rows[0][2], "–");
}

TEST(TrainingTable, NeverMixesMachines) {
  Result other = example_result("standard");
  other.machine.gpu = "H100";
  const auto tables = training_tables(std::vector<Result>{example_result("nystrom"), other});
  ASSERT_EQ(tables.size(), 2u);
  EXPECT_TRUE(contains(tables[0].title, "on H100, Xeon"));
}

TEST(TrainingTable, KeepsRunsOfSeveralProcessesApart) {
  Result other = example_result("standard");
  other.training.processes = 4;
  other.training.engine = "mpi";
  const std::vector<Result> both{example_result("nystrom"), other};
  const auto tables = training_tables(both);
  ASSERT_EQ(tables.size(), 2u);
  EXPECT_TRUE(contains(tables[1].title, "on Xeon, 2 cores, 8 GiB, 1 thread, 4 processes (mpi)"));
  EXPECT_EQ(accuracy_tables(both).size(), 1u) << "the recipe is the same";
}

TEST(TrainingTable, KeepsApartWhatChangesCostsAlone) {
  const Result plain = example_result("nystrom");
  Result unknown = plain, two = plain, reference = plain, parts = plain, shared = plain;
  unknown.training.threads.reset();
  two.training.threads = 2;
  reference.config["kernels"] = "reference";
  parts.config["training"]["micro_batch"] = 8;
  shared.training.sharing = 3;
  const std::vector<Result> all{plain, unknown, two, reference, parts, shared};
  const auto tables = training_tables(all);
  ASSERT_EQ(tables.size(), 6u);
  std::string titles;
  for (const Table& table : tables) titles += table.title + "\n";
  for (const char* part :
       {"GiB, threads not known\n", "GiB, 1 thread\n", "GiB, 2 threads\n",
        "GiB, 1 thread, kernels reference\n", "GiB, 1 thread, batch in parts of 8\n",
        "GiB, 1 thread, one of 3 runs at a time\n"}) {
    EXPECT_TRUE(contains(titles, part)) << part << titles;
  }
  EXPECT_EQ(accuracy_tables(all).size(), 1u) << "the recipe is the same";
}

TEST(TrainingTable, CountsARepeatedSeedOnce) {
  Result again = example_result("nystrom");
  again.training.steps_per_second = 1000.0;
  const auto tables = training_tables(std::vector<Result>{example_result("nystrom"), again});
  ASSERT_EQ(tables.size(), 1u);
  EXPECT_EQ(tables[0].rows[0][2], "10");
}

TEST(TrainingTable, MarksSpeedsThatOthersTookTimeFrom) {
  std::vector<Result> runs{example_result("linear"), example_result("nystrom")};
  runs[0].training.others = 0.04;
  runs[1].training.others = 0.3;
  const Table table = training_tables(runs)[0];
  EXPECT_FALSE(table.rows[0][2].starts_with("~"));
  EXPECT_EQ(table.rows[1][2], "~" + table.rows[0][2]);
  EXPECT_EQ(table.rows[1][3], "~" + table.rows[0][3]);
  EXPECT_TRUE(contains(to_text(table), "~: others took more than 5 %"));
  const Table all = training_long(runs);
  EXPECT_EQ(all.columns.front().header, "setting");
  ASSERT_EQ(all.rows.size(), 2u);
  ASSERT_EQ(all.columns.rbegin()[1].header, "noisy");
  EXPECT_EQ(all.rows[0].rbegin()[1], "false");
  EXPECT_EQ(all.rows[1].rbegin()[1], "true");
  runs[1].training.steps_per_second = 10.0625;
  EXPECT_EQ(training_long(runs).rows[1][3], "10.0625") << "no mark, not rounded";
  runs[1].training.others.reset();
  EXPECT_FALSE(contains(to_text(training_tables(runs)[0]), "~"));
}

}  // namespace
}  // namespace lra
