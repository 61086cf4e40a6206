// A cell's record over its passes, and its file.
#include "harness/profile/passes.h"

#include <gtest/gtest.h>

#include "attention_variants/base/files.h"
#include "harness/profile/store.h"
#include "results/analysis/profile_cells.h"
#include "tests/support/scratch.h"

namespace lra::profile {
namespace {

Profile one_pass(double ms, const std::string& noisy = "") {
  Profile pass;
  pass.attention = {.name = "standard", .label = "standard", .options = json::object()};
  pass.length = 64;
  pass.batch = pass.heads = pass.head_dim = 1;
  pass.scope = ProfileScope::core;
  pass.mode = ProfileMode::inference;
  pass.dtype = "float32";
  pass.device = "cpu";
  pass.time =
      ProfileTime{.median = ms, .samples = {ms, ms}, .passes = {{.samples = 2, .noisy = noisy}}};
  pass.memory = ProfileMemory{.peak = ms};
  return pass;
}

Profile settled(Profile record, int64_t passes) {
  settle(record, {{"passes", passes}}, Roofline{.gflops = 1, .gigabytes_per_second = 2}, passes);
  return record;
}

TEST(ProfilePasses, ACellIsDoneWithItsQuietPasses) {
  Profile record = settled(one_pass(2), 2);
  EXPECT_FALSE(is_done(record, 2));
  EXPECT_EQ(passes_to_come(record, 2), 1);
  EXPECT_EQ(record.noisy, "only 1 of 2 passes");
  merge_pass(one_pass(2, "busy"), record);
  record = settled(std::move(record), 2);
  EXPECT_EQ(pass_count(record), 2);
  EXPECT_EQ(record.noisy, "busy");
  EXPECT_FALSE(is_done(record, 2));
  EXPECT_EQ(passes_to_come(record, 2), 1);
  EXPECT_EQ(passes_to_come(record, 3), 2);
  merge_pass(one_pass(2), record);
  record = settled(std::move(record), 2);
  EXPECT_EQ(record.noisy, "");
  EXPECT_TRUE(is_done(record, 2));
  EXPECT_EQ(record.time->median, 2);
  EXPECT_EQ(record.time->samples.size(), 6u);
  EXPECT_EQ(record.roofline->gflops, 1);
}

TEST(ProfilePasses, FewSamplesHaveNoInterval) {
  Profile record = settled(one_pass(2), 1);
  EXPECT_FALSE(record.time->ci95);
  EXPECT_EQ(record.noisy, "only 2 samples");
  EXPECT_TRUE(is_done(record, 1)) << "the calls are long";
  merge_pass(one_pass(2), record);
  merge_pass(one_pass(2), record);
  record = settled(std::move(record), 1);
  EXPECT_TRUE(record.time->ci95);
  EXPECT_EQ(record.noisy, "");
}

TEST(ProfilePasses, ARooflineThatFailsLeavesThatOfBefore) {
  Profile record = settled(one_pass(2), 1);
  settle(record, {{"passes", 1}}, std::nullopt, 1);
  ASSERT_TRUE(record.roofline);
  EXPECT_EQ(record.roofline->gflops, 1);
}

TEST(ProfilePasses, TwiceAsManyAreTheMost) {
  Profile record = settled(one_pass(1, "busy"), 1);
  EXPECT_FALSE(is_done(record, 1));
  merge_pass(one_pass(3, "busy"), record);
  record = settled(std::move(record), 1);
  EXPECT_TRUE(is_done(record, 1));
  EXPECT_EQ(passes_to_come(record, 1), 0);
  EXPECT_EQ(record.noisy, "busy");
  EXPECT_EQ(record.memory->peak, 3) << "the highest of all";
}

TEST(ProfilePasses, AFailureAfterAPassEndsTheCell) {
  Profile record = settled(one_pass(1), 3);
  Profile failed = one_pass(1);
  failed.status = Status::oom;
  failed.reason = "too much";
  merge_pass(failed, record);
  record = settled(std::move(record), 3);
  EXPECT_EQ(record.status, Status::ok);
  EXPECT_EQ(pass_count(record), 1);
  EXPECT_EQ(record.noisy, "a later process ended in oom: too much");
  EXPECT_TRUE(is_done(record, 3));
}

TEST(ProfilePasses, AFailureAtFirstIsTheRecord) {
  Profile record = one_pass(1);
  record.status = Status::crash;
  record.time.reset();
  EXPECT_TRUE(is_done(record, 3));
  EXPECT_EQ(pass_count(record), 0);
}

TEST(ProfileStore, KeepsThePlansOrderBehindWhatOthersLeft) {
  const Scratch scratch;
  const std::filesystem::path file = scratch.path() / "p.jsonl";
  const auto cell = [](int64_t length) {
    Profile record = one_pass(1);
    record.length = length;
    return record;
  };
  Profile of_another_plan = cell(7);
  of_another_plan.noisy = "busy";
  write_file(file, make_profile(of_another_plan).dump() + "\n");
  std::vector<std::string> keys;
  for (const int64_t length : {1, 2, 3}) keys.push_back(identity(cell(length)));
  ProfileStore store(file, keys);
  EXPECT_EQ(store.find(1), nullptr);
  store.insert(cell(2), 1);
  store.insert(cell(3), 2);
  Profile noisy = cell(1);
  noisy.noisy = "busy";
  store.insert(noisy, 0);
  store.write();
  std::vector<int64_t> lengths;
  for (const Profile& record : read_profile(file)) lengths.push_back(record.length);
  EXPECT_EQ(lengths, (std::vector<int64_t>{7, 1, 2, 3}));
  ASSERT_NE(store.find(1), nullptr);
  EXPECT_EQ(store.find(1)->length, 2);
  store.replace_failed({});
  EXPECT_EQ(store.find(0), nullptr);
  EXPECT_EQ(store.records().size(), 4u) << "until another stands in its place";
  store.insert(cell(1), 0);
  ASSERT_NE(store.find(0), nullptr);
  EXPECT_EQ(store.find(0)->noisy, "");
  EXPECT_EQ(store.records().size(), 4u);
}

}  // namespace
}  // namespace lra::profile
