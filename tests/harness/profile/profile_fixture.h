// A file that lra profile writes to in a test, and what it then holds.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

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

class ProfileTest : public ProfileFileTest {
 protected:
  // Few and short samples of one process a cell, unless a test asks for more.
  std::vector<std::string> complete(std::vector<std::string> words) const {
    const bool passes = std::ranges::find(words, "--passes") != words.end();
    words.insert(words.begin(), "profile");
    words.insert(words.end(), {"--out", out_, "--seconds", "0.03", "--threads", "1"});
    if (!passes) words.insert(words.end(), {"--passes", "1"});
    return words;
  }
  ProgramResult profile(std::vector<std::string> words) {
    return run_program(complete(std::move(words)));
  }
};

}  // namespace lra::profile
