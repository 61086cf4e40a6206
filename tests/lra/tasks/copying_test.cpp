// Selective copying and induction heads: the structure of every sample, and that what is random is
// uniform.
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/math/distributions/chi_squared.hpp>
#include <limits>
#include <vector>

#include "lra/tasks/induction/induction.h"
#include "lra/tasks/selective_copying/selective_copying.h"
#include "tests/support/scratch.h"

namespace lra {
namespace {

constexpr int64_t kSamples = 4'000;

// The p-value of equal chances.
double p_of_uniform(const std::vector<double>& counts) {
  double all = 0, statistic = 0;
  for (const double count : counts) all += count;
  const double expected = all / static_cast<double>(counts.size());
  for (const double count : counts) statistic += (count - expected) * (count - expected) / expected;
  const boost::math::chi_squared distribution(static_cast<double>(counts.size() - 1));
  return boost::math::cdf(boost::math::complement(distribution, statistic));
}

TEST(SelectiveCopying, AsksForTheTokensInTheirOrder) {
  const selective_copying::Options options{.noise = 13, .tokens = 5, .alphabet = 10};
  std::vector<double> places(18, 0), tokens(8, 0);
  for (uint64_t i = 0; i < kSamples; ++i) {
    CounterRandom random(1, i);
    const LabelledTokens s = selective_copying::draw_sample(random, options);
    ASSERT_EQ(s.tokens.size(), 23u);
    std::vector<int32_t> kept;
    for (size_t at = 0; at < 18; ++at) {
      EXPECT_EQ(s.labels[at], -1);
      if (s.tokens[at] == 0) continue;
      EXPECT_LE(s.tokens[at], 8);
      ++places[at];
      ++tokens[s.tokens[at] - 1u];
      kept.push_back(s.tokens[at]);
    }
    EXPECT_EQ(kept, std::vector<int32_t>(s.labels.begin() + 18, s.labels.end()));
    EXPECT_EQ(std::count(s.tokens.begin() + 18, s.tokens.end(), 9), 5) << "markers";
  }
  EXPECT_GT(p_of_uniform(places), 1e-3);
  EXPECT_GT(p_of_uniform(tokens), 1e-3);
}

// Published records name data by them.
TEST(CopyingTasks, TheDataOfASeedNeverChange) {
  const Scratch scratch;
  const auto fingerprint = [&](const char* name) {
    task(name).prepare({.out = scratch.path(), .seed = 3, .train = 50, .dev = 10, .test = 10});
    return Manifest::read(scratch.path() / name / "manifest.json").fingerprint();
  };
  EXPECT_EQ(fingerprint("selective_copying"),
            "d83e98ae7c71e0c3c6eb444f4ab1a93c8cc156b9794efa43b1df02c8ac276768");
  EXPECT_EQ(fingerprint("induction"),
            "e1e906339c75866466ea67a53ff85c4f27f677411470f0cddca6263df42d693f");
}

// Of two tokens and one place in three there are few samples.
TEST(CopyingTasks, SamplesThatStandInTwoSplitsAreNoted) {
  const Scratch scratch;
  const auto notes = [&](json settings) {
    task("selective_copying")
        .prepare({.out = scratch.path(), .train = 50, .dev = 10, .test = 10, .settings = settings});
    return Manifest::read(scratch.path() / "selective_copying" / "manifest.json").notes;
  };
  EXPECT_EQ(
      notes({{"noise", 2}, {"tokens", 1}, {"alphabet", 4}}),
      std::vector<std::string>{"WARNING: samples of dev that stand in train: 10, of test that "
                               "stand in train or dev: 10"});
  remove_tree(scratch.path() / "selective_copying");
  EXPECT_EQ(notes(json::object()), std::vector<std::string>{});
}

TEST(SelectiveCopying, TakesSizesWithoutNoiseAndRefusesSmallAlphabets) {
  CounterRandom random(1, 1);
  const LabelledTokens s = selective_copying::draw_sample(random, {.noise = 0, .tokens = 3});
  EXPECT_TRUE(std::equal(s.labels.begin() + 3, s.labels.end(), s.tokens.begin()));
  const Scratch scratch;
  for (const json& wrong : {json{{"alphabet", 2}}, json{{"alphabet", 17}}, json{{"tokens", 0}}}) {
    EXPECT_THROW(task("selective_copying").prepare({.out = scratch.path(), .settings = wrong}),
                 UsageError)
        << wrong;
  }
}

TEST(Induction, RefusesMoreCopiedTokensThanAnySequenceHas) {
  const Scratch scratch;
  const std::string error = error_text([&] {
    task("induction")
        .prepare(
            {.out = scratch.path(), .settings = {{"copied", std::numeric_limits<int64_t>::max()}}});
  });
  EXPECT_NE(error.find("copied should be"), std::string::npos) << error;
}

TEST(Induction, TheLastTriggerAsksForWhatStoodBehindTheFirst) {
  for (const auto& [copied, triggers] : {std::pair{1, 1}, {1, 3}, {3, 4}}) {
    const induction::Options options{.copied = copied, .num_triggers = triggers};
    std::vector<double> answers(14, 0);
    int64_t single = 0;
    for (uint64_t i = 0; i < kSamples; ++i) {
      CounterRandom random(2, i);
      const LabelledTokens s =
          induction::draw_sample(random, 40, options, induction::TrainLabels::copied);
      ASSERT_EQ(s.tokens.size(), 40u);
      const size_t last = 40 - static_cast<size_t>(copied);
      ASSERT_EQ(s.tokens[last], induction::kTrigger);
      std::vector<size_t> found;
      for (size_t at = 0; at < last; ++at) {
        EXPECT_EQ(s.labels[at], -1);
        EXPECT_TRUE(s.tokens[at] >= 1 && s.tokens[at] <= induction::kTrigger);
        if (s.tokens[at] == induction::kTrigger) found.push_back(at);
      }
      ASSERT_FALSE(found.empty());
      single += found.size() == 1 ? 1 : 0;
      for (const size_t trigger : found) {
        for (size_t k = 0; std::cmp_less(k, copied); ++k)
          EXPECT_EQ(s.tokens[trigger + 1 + k], s.labels[last + k]) << "copy " << k;
      }
      for (size_t k = 0; std::cmp_less(k, copied - 1); ++k)
        EXPECT_EQ(s.tokens[last + 1 + k], s.labels[last + k]);
      ++answers[static_cast<size_t>(s.labels[last]) - 1];
    }
    EXPECT_GT(p_of_uniform(answers), 1e-3);
    if (triggers == 1) {
      EXPECT_EQ(single, kSamples);
    } else {
      EXPECT_GT(single, kSamples * 45 / 100) << "half by design, and where triggers are too close";
      EXPECT_LT(single, kSamples * 70 / 100);
    }
  }
}

TEST(Induction, TrainingMayLabelEveryNextToken) {
  CounterRandom one(2, 5), same(2, 5);
  const LabelledTokens all = induction::draw_sample(one, 24, {}, induction::TrainLabels::all),
                       copied =
                           induction::draw_sample(same, 24, {}, induction::TrainLabels::copied);
  EXPECT_EQ(all.tokens, copied.tokens);
  for (size_t at = 0; at + 1 < all.tokens.size(); ++at)
    EXPECT_EQ(all.labels[at], all.tokens[at + 1]);
  EXPECT_EQ(all.labels.back(), copied.labels.back());
}

TEST(Induction, TestsAtALengthOfItsOwn) {
  const Scratch scratch;
  const auto prepare = [&](const json& settings) {
    task("induction")
        .prepare({.out = scratch.path(), .train = 3, .dev = 2, .test = 2, .settings = settings});
  };
  EXPECT_THROW(prepare({{"length", 5}, {"copied", 2}}), UsageError);
  prepare({{"length", 32}, {"test_length", 48}});
  const PreparedData data = open_data(scratch.path(), "induction", /*check_hashes=*/true);
  EXPECT_EQ(data.split("train").length(0), 32);
  EXPECT_EQ(data.split("test").length(0), 48);
}

}  // namespace
}  // namespace lra
