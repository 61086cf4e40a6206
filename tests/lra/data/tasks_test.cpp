// The tasks by their names.
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace lra
