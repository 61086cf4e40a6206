// The tasks by their names.
#include <gtest/gtest.h>

#include "lra/data/reading.h"
#include "lra/data/task.h"
#include "tests/support/scratch.h"

namespace lra {
namespace {

TEST(Tasks, AnUnknownNameGivesTheNearest) {
  EXPECT_EQ(task("listops").title, "ListOps");
  EXPECT_NE(error_text([] {
              task("lisops");
            }).find("unknown task 'lisops'; did you mean 'listops'? Valid: "),
            std::string::npos);
  EXPECT_THROW(task("lisops"), UsageError);
}

TEST(Tasks, NamesAreUsedOnce) {
  EXPECT_EQ(error_text([] { register_task(task("listops")); }),
            "task 'listops' is registered twice");
}

TEST(Memory, WhatCannotFitIsRefused) {
  EXPECT_NO_THROW(check_memory({}, 1 << 20, "some"));
  EXPECT_NE(error_text([] {
              check_memory({}, int64_t{1} << 60, "9 samples of 7 tokens");
            }).find("9 samples of 7 tokens take 1073741825 GiB of memory, more than the "),
            std::string::npos);
  EXPECT_THROW(check_memory({.memory = 1 << 20}, 1 << 21, "what a control group has no room for"),
               UsageError);
}

}  // namespace
}  // namespace lra
