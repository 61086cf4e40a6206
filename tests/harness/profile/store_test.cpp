// The records of a profile in their file, as calls replace and add them.
#include "harness/profile/store.h"

#include <gtest/gtest.h>

#include "attention_variants/base/files.h"
#include "results/analysis/profile_cells.h"
#include "tests/results/examples.h"
#include "tests/support/scratch.h"

namespace lra::profile {
namespace {

class ProfileStoreTest : public testing::Test {
 protected:
  static json record(int64_t length, double ms) {
    return make_profile(example_profile("standard", length, 1, ms));
  }
  static json noisy(int64_t length) {
    json of = record(length, 1);
    of["noisy"] = "the interval is wide";
    return of;
  }
  void write(const std::vector<json>& records) const {
    std::string text;
    for (const json& one : records) text += one.dump() + "\n";
    write_file(file_, text);
  }
  ProfileStore store() const {
    std::vector<std::string> keys;
    for (const int64_t length : {64, 128, 256})
      keys.push_back(identity(example_profile("standard", length, 1, 1)));
    return {file_, keys};
  }

  Scratch scratch_;
  std::filesystem::path file_ = scratch_.path() / "p.jsonl";
};

// As reports and comparisons do.
TEST_F(ProfileStoreTest, OfACellThatStandsTwiceTheLastCounts) {
  write({record(64, 1), record(64, 1000)});
  ProfileStore all = store();
  ASSERT_NE(all.find(0), nullptr);
  EXPECT_EQ(all.find(0)->time->median, 1000);
}

TEST_F(ProfileStoreTest, WhatIsToBeMeasuredAnewStandsUntilItIs) {
  write({noisy(64), noisy(128), record(256, 1)});
  ProfileStore all = store();
  all.replace_failed({});
  EXPECT_EQ(all.find(0), nullptr);
  EXPECT_EQ(all.find(1), nullptr);
  EXPECT_NE(all.find(2), nullptr);
  all.insert(example_profile("standard", 64, 1, 7), 0);
  all.write();
  const std::vector<Profile> now = read_profile(file_);
  ASSERT_EQ(now.size(), 3u) << "a call that ends here has lost nothing";
  for (const Profile& one : now) {
    EXPECT_EQ(one.noisy.empty(), one.length != 128) << one.length;
    EXPECT_EQ(one.time->median == 7, one.length == 64);
  }
}

TEST_F(ProfileStoreTest, WhatIsRemovedLeavesTheOthersAsTheyWere) {
  json more = record(64, 1);
  more["later"] = {{"a", 1}};
  write({record(128, 1), more, record(128, 2)});
  const auto of = [](int64_t length) {
    return [length](const Profile& one) { return one.length == length; };
  };
  EXPECT_EQ(remove_records(file_, of(256)), 0u);
  EXPECT_EQ(remove_records(file_, of(128)), 2u);
  EXPECT_EQ(read_file(file_), more.dump() + "\n");
  EXPECT_EQ(remove_records(file_, of(64)), 1u);
  EXPECT_FALSE(std::filesystem::exists(file_)) << "an empty one is no profile";
}

// Those of another version of the program may say more.
TEST_F(ProfileStoreTest, LinesThatDoNotChangeStayAsTheyWere) {
  json more = record(64, 1);
  more["later"] = {{"a", 1}};
  write({more});
  ProfileStore all = store();
  all.insert(example_profile("standard", 128, 1, 2), 1);
  all.write();
  EXPECT_TRUE(read_file(file_).starts_with(more.dump() + "\n")) << read_file(file_);
  EXPECT_EQ(read_profile(file_).size(), 2u);
}

}  // namespace
}  // namespace lra::profile
