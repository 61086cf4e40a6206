// Suites of seconds over several tasks, and small public data for them.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "harness/training/run_folder.h"
#include "tests/harness/program.h"
#include "tests/support/archives.h"

namespace lra::suite {

inline void write_reviews(const std::filesystem::path& archive) {
  std::vector<ArchiveEntry> entries;
  for (const std::string half : {"train", "test"}) {
    for (const std::string label : {"neg", "pos"}) {
      for (int64_t id = 0; id < 30; ++id) {
        entries.push_back(
            {.name = "aclImdb/" + half + "/" + label + "/" + std::to_string(id) + "_5.txt",
             .content = "A " + label + " film of " + half + " " + std::to_string(id) + "."});
      }
    }
  }
  write_archive(archive, entries);
}

inline void write_images(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  for (const char* name : {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4",
                           "data_batch_5", "test_batch"}) {
    std::string bytes;
    for (int i = 0; i < 60; ++i) {
      std::string record(3073, static_cast<char>(i));
      record[0] = static_cast<char>(i % 10);
      bytes += record;
    }
    write_file(folder / (std::string(name) + "_first60.bin"), bytes);
  }
}

class SuiteTasksTest : public testing::Test {
 protected:
  void SetUp() override {
    const json counts = {{"train", 40}, {"dev", 8}, {"test", 16}};
    const json set = {{"input.length", 64},    {"model.layers", 1},
                      {"model.width", 8},      {"model.heads", 1},
                      {"model.head_dim", 8},   {"model.feed_forward", 8},
                      {"model.classifier", 8}, {"training.steps", 2},
                      {"training.batch", 4},   {"training.evaluate_every", 2},
                      {"schedule.warmup", 1},  {"evaluation.batch", 8}};
    json of_task = counts;
    of_task["set"] = set;
    json tasks;
    for (const char* name : {"text", "image", "retrieval", "pathfinder", "pathx"})
      tasks[name] = of_task;
    write_json(budget_, {{"schema", "lra.budget/1"},
                         {"name", "tiny"},
                         {"run", "pathfinder"},
                         {"tasks", tasks},
                         {"profile", {{"lengths", "64"}, {"seconds", 0.02}}}});
    write_reviews(reviews_);
    write_images(images_);
  }
  std::vector<std::string> words(const std::vector<std::string>& more) const {
    std::vector<std::string> all = {"suite",    "--budget", budget_.string(), "--attentions",
                                    "standard", "--out",    out_.string(),    "--threads",
                                    "1",        "--resume"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  // One line, exit status 2, and nothing left behind.
  std::string refused(const std::vector<std::string>& more) const {
    const ProgramResult result = run_program(words(more));
    EXPECT_EQ(result.status, 2) << result.err;
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
    EXPECT_FALSE(std::filesystem::exists(out_)) << "nothing half-written";
    return result.err;
  }

  Scratch scratch_;
  std::filesystem::path budget_ = scratch_.path() / "tiny.json", out_ = scratch_.path() / "s",
                        reviews_ = scratch_.path() / "aclImdb.tar.gz",
                        images_ = scratch_.path() / "cifar";
};

}  // namespace lra::suite
