// Multi-query associative recall: the structure of every sample, the distribution of the places of
// its queries, and mixes of sizes.
#include "lra/tasks/mqar/mqar.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/math/distributions/chi_squared.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "lra/data/loader.h"
#include "tests/support/scratch.h"

namespace lra::mqar {
namespace {

LabelledTokens sample(uint64_t index, const Segment& size, const Options& options = {}) {
  CounterRandom random(/*seed=*/7, index);
  return draw_sample(random, size, options);
}

TEST(Mqar, EverySampleAsksForEveryKeyOnceAfterThePairs) {
  for (const Segment& size : {Segment{64, 4}, {128, 8}, {16, 4}, {256, 64}}) {
    for (uint64_t i = 0; i < 200; ++i) {
      const LabelledTokens s = sample(i, size);
      ASSERT_EQ(std::ssize(s.tokens), size.length);
      std::map<uint16_t, int32_t> value_of;
      std::set<int32_t> values;
      for (size_t at = 0; std::cmp_less(at, 2 * size.pairs); at += 2) {
        const uint16_t key = s.tokens[at], value = s.tokens[at + 1];
        EXPECT_TRUE(key >= 1 && key < kVocabulary / 2) << key;
        EXPECT_TRUE(value >= kVocabulary / 2 && value < kVocabulary) << value;
        EXPECT_TRUE(value_of.emplace(key, value).second) << "key " << key << " again";
        EXPECT_TRUE(values.insert(value).second) << "value " << value << " again";
      }
      int64_t asked = 0;
      for (size_t at = 0; at < s.tokens.size(); ++at) {
        if (std::cmp_less(at, 2 * size.pairs)) {
          EXPECT_EQ(s.labels[at], -1);
          continue;
        }
        if (s.labels[at] < 0) {
          EXPECT_EQ(s.tokens[at], 0) << "a filler";
          continue;
        }
        ++asked;
        EXPECT_EQ(at % 2, 0u);
        ASSERT_TRUE(value_of.contains(s.tokens[at]));
        EXPECT_EQ(s.labels[at], value_of.extract(s.tokens[at]).mapped()) << "asked for once";
      }
      EXPECT_EQ(asked, size.pairs);
    }
  }
}

TEST(Mqar, PassesRepeatThePairsAndFillersMayBeAnyId) {
  const Segment size{64, 4};
  const LabelledTokens twice = sample(3, size, {.passes = 2});
  for (size_t at = 0; at < 8; ++at) EXPECT_EQ(twice.tokens[at], twice.tokens[at + 8]);
  EXPECT_EQ(std::ranges::count_if(twice.labels, [](int32_t label) { return label >= 0; }), 4);
  EXPECT_EQ(std::ranges::count_if(twice.labels.begin(), twice.labels.begin() + 16,
                                  [](int32_t label) { return label >= 0; }),
            0);
  double sum = 0, count = 0;
  for (uint64_t i = 0; i < 300; ++i) {
    const LabelledTokens s = sample(i, size, {.random_non_queries = true});
    for (size_t at = 8; at < s.tokens.size(); ++at) {
      if (s.labels[at] >= 0) continue;
      EXPECT_LT(s.tokens[at], kVocabulary);
      sum += s.tokens[at];
      ++count;
    }
  }
  const double mean = (kVocabulary - 1) / 2.0, sd = kVocabulary / std::sqrt(12 * count);
  EXPECT_NEAR(sum / count, mean, 4 * sd);
}

// The p-value of a chi-squared test of the first query's slots against the chances.
double p_of_first_slots(double drawn_power, double tested_power) {
  constexpr int64_t kSamples = 20'000;
  const Segment size{64, 4};
  const std::vector<double> chances = slot_chances(28, tested_power);
  std::vector<double> counts(28, 0);
  for (uint64_t i = 0; i < kSamples; ++i) {
    const LabelledTokens s = sample(i, size, {.power = drawn_power});
    // The slot of the first key, which is the first that is drawn.
    for (size_t at = 8; at < s.tokens.size(); at += 2) {
      if (s.tokens[at] == s.tokens[0]) ++counts[(at - 8) / 2];
    }
  }
  double statistic = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    const double expected = kSamples * chances[i];
    statistic += (counts[i] - expected) * (counts[i] - expected) / expected;
  }
  return boost::math::cdf(boost::math::complement(boost::math::chi_squared(27), statistic));
}

TEST(Mqar, QueriesStandByThePowerLaw) {
  EXPECT_NEAR(slot_chances(28, 0.01)[1] / slot_chances(28, 0.01)[0], std::pow(2, -0.99), 1e-12);
  EXPECT_GT(p_of_first_slots(0.01, 0.01), 1e-3);
  EXPECT_GT(p_of_first_slots(1, 1), 1e-3) << "uniform";
  EXPECT_LT(p_of_first_slots(0.01, 0.1), 1e-6) << "another power is told apart";
}

// Slots are drawn without replacement, each by its share of what is left: of two slots the second
// query's chances are the first's turned around.
TEST(Mqar, LaterQueriesTakeWhatIsLeft) {
  constexpr double kPower = 0.01;
  const Segment size{12, 2};  // four slots
  const std::vector<double> p = slot_chances(4, kPower);
  std::vector<double> expected(4, 0), counts(4, 0);
  for (size_t first = 0; first < 4; ++first) {
    for (size_t second = 0; second < 4; ++second)
      if (first != second) expected[second] += p[first] * p[second] / (1 - p[first]);
  }
  constexpr int64_t kSamples = 20'000;
  for (uint64_t i = 0; i < kSamples; ++i) {
    const LabelledTokens s = sample(i, size, {.power = kPower});
    for (size_t at = 4; at < s.tokens.size(); at += 2)
      if (s.tokens[at] == s.tokens[2]) ++counts[(at - 4) / 2];
  }
  for (size_t i = 0; i < 4; ++i)
    EXPECT_NEAR(counts[i] / kSamples, expected[i], 4 * std::sqrt(0.25 / kSamples)) << i;
}

TEST(Mqar, SizesAreReadAndChecked) {
  const std::vector<Segment> mix = parse_segments("64x4:100,128x8:20", "mix", true, 1);
  ASSERT_EQ(mix.size(), 2u);
  EXPECT_EQ(mix[1].length, 128);
  EXPECT_EQ(mix[1].pairs, 8);
  EXPECT_EQ(mix[1].count, 20);
  for (const char* wrong : {"", "64", "64x4", "64x4:", "64x4:0", "x4:1", "64x4:1,", "64x4:1;3x1:1",
                            "63x4:1", "64x17:1", "9000x4:1", "64x4:1 "})
    EXPECT_THROW(parse_segments(wrong, "mix", true, 1), UsageError) << "'" << wrong << "'";
  EXPECT_NO_THROW(parse_segments("16x4", "test_sizes", false, 1));
  EXPECT_THROW(parse_segments("16x4", "test_sizes", false, 2), UsageError) << "two passes";
  EXPECT_NE(error_text([] {
              parse_segments("64x4611686018427387904", "test_sizes", false, 1);
            }).find("there should be from 1 to 4095 pairs"),
            std::string::npos);
}

class MqarData : public testing::Test {
 protected:
  PreparedData prepared(const std::string& folder, const json& settings, int64_t train = -1) const {
    task("mqar").prepare({.out = scratch_.path() / folder,
                          .seed = 3,
                          .train = train,
                          .dev = 6,
                          .test = 8,
                          .settings = settings});
    return open_data(scratch_.path() / folder, "mqar", /*check_hashes=*/true);
  }
  Scratch scratch_;
};

TEST_F(MqarData, MixesSizesAndLabelsPositions) {
  const PreparedData data =
      prepared("mix", {{"mix", "64x4:5,128x8:3"}, {"test_sizes", "64x4,256x16"}});
  EXPECT_EQ(data.split("train").size(), 8);
  EXPECT_EQ(data.split("train").length(4), 64);
  EXPECT_EQ(data.split("train").length(5), 128);
  EXPECT_EQ(data.split("test").length(0), 64);
  EXPECT_EQ(data.split("test").length(1), 256);
  EXPECT_EQ(data.manifest().generator, "mqar/1");
  EXPECT_TRUE(data.manifest().position_labels);
  const Batch batch = gather_batch({data.split("train")}, {7, 0}, 128, {.length = 128});
  EXPECT_EQ(batch.labels.sizes(), (std::vector<int64_t>{2, 128}));
  EXPECT_EQ(batch.labels[0].ge(0).sum().item<int64_t>(), 8);
  EXPECT_EQ(batch.labels[1].ge(0).sum().item<int64_t>(), 4);
  EXPECT_TRUE(batch.labels[1].narrow(0, 64, 64).eq(-1).all().item<bool>()) << "padding";
}

TEST_F(MqarData, TheManifestOfAMixHasNoOtherSizes) {
  const json settings = {{"mix", "64x4:5"}};
  const PreparedData data = prepared("mix", settings);
  EXPECT_EQ(data.manifest().options["mix"], "64x4:5");
  for (const char* key : {"length", "pairs"})
    EXPECT_FALSE(data.manifest().options.contains(key)) << key;
  EXPECT_TRUE(prepared("one", json::object(), 4).manifest().options.contains("length"));

  // One that names them, as it once did, is read, and is of the same data.
  const std::filesystem::path path = scratch_.path() / "mix" / "mqar" / "manifest.json";
  json before = read_json(path);
  before["options"]["length"] = 64;
  before["options"]["pairs"] = 4;
  write_json(path, before, Links::replace);
  EXPECT_EQ(prepared("mix", settings).manifest().fingerprint(), data.manifest().fingerprint());
  EXPECT_THROW(prepared("mix", {{"mix", "64x4:6"}}), Error);
}

TEST_F(MqarData, SamplesDoNotDependOnTheNumberOfOthers) {
  const PreparedData few = prepared("few", json::object(), 4),
                     many = prepared("many", json::object(), 9);
  for (const char* split : {"train", "test"}) {
    EXPECT_TRUE(torch::equal(few.split(split).tokens(3), many.split(split).tokens(3))) << split;
  }
  EXPECT_NE(few.manifest().fingerprint(), many.manifest().fingerprint());
  EXPECT_FALSE(torch::equal(few.split("train").tokens(0), few.split("test").tokens(0)));
  // The same once more is the same data, another setting is not.
  EXPECT_NO_THROW(prepared("few", json::object(), 4));
  EXPECT_EQ(few.manifest().fingerprint(),
            "25442c67805db834c45305b7267bc86aa81fa44bce32c677dfc6e97c7a5c4bc7")
      << "data of a seed never change";
  EXPECT_THROW(prepared("few", {{"power", 1.0}}, 4), Error);
}

TEST_F(MqarData, RefusesWhatItDoesNotHave) {
  EXPECT_THROW(prepared("a", {{"lenght", 64}}), UsageError);
  EXPECT_THROW(prepared("a", {{"pairs", 20}}), UsageError);
  for (const char* name : {"pairs", "passes"}) {
    const std::string error = error_text([&] {
      prepared("a", {{name, std::numeric_limits<int64_t>::max()}});
    });
    EXPECT_NE(error.find(std::string(name) + " should be from 1"), std::string::npos) << error;
  }
  // Beyond, chances of slots come to nothing.
  EXPECT_THROW(prepared("a", {{"power", 150}}), UsageError);
  EXPECT_THROW(prepared("a", {{"mix", "64x4:5"}}, 10), UsageError);
  for (const std::string key : {"length", "pairs"}) {
    EXPECT_EQ(error_text([&] {
                prepared("a", {{"mix", "64x4:5"}, {key, 64}});
              }),
              "--set " + key + " and mix both say the " + key +
                  " of training samples: leave one of them out");
  }
  const std::string many = "mix should ask for at most 100000000 samples in all";
  EXPECT_EQ(error_text([&] { prepared("a", {{"mix", "64x4:99999999,64x4:2"}}); }), many);
  EXPECT_EQ(error_text([&] { prepared("a", {{"mix", "64x4:9223372036854775807,64x4:1"}}); }), many);
  EXPECT_THROW(task("mqar").prepare({.out = scratch_.path() / "a", .source = "x"}), UsageError);
  EXPECT_THROW(task("listops").prepare({.out = scratch_.path() / "a", .settings = {{"power", 1}}}),
               UsageError);
}

}  // namespace
}  // namespace lra::mqar
