// A file that lra profile writes to in a test, and what it then holds.
#pragma once

#include <gtest/gtest.h>

#include "results/store/store.h"
#include "tests/harness/program.h"

namespace lra::profile {

class ProfileFileTest : public testing::Test {
 protected:
  std::vector<Profile> cells() const {
    const Records records = find_records({out_});
    EXPECT_TRUE(records.bad.empty());
    return records.profiles;
  }

  Scratch scratch_;
  std::string out_ = (scratch_.path() / "p.jsonl").string();
};

}  // namespace lra::profile
