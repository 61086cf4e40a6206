// Tests of a task that is prepared from a file, which they write.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>

#include "lra/data/task.h"
#include "tests/support/archives.h"
#include "tests/support/scratch.h"

namespace lra {

class SourceTest : public testing::Test {
 protected:
  SourceTest(std::string task_name, const std::string& file)
      : archive_(scratch_.path() / file), task_name_(std::move(task_name)) {}

  /// Each time into a folder of its own.
  PreparedData prepare(PrepareOptions options = {}) {
    options.source = archive_;
    options.out = scratch_.path() / ("out" + std::to_string(++runs_));
    task(task_name_).prepare(options);
    return open_data(options.out, task_name_, /*check_hashes=*/true);
  }

  Scratch scratch_;
  std::filesystem::path archive_;
  int runs_ = 0;

 private:
  std::string task_name_;
};

}  // namespace lra
