// ListOps: values, text, generation.
#include "lra/tasks/listops/listops.h"

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <set>

#include "attention_variants/base/files.h"
#include "tests/support/scratch.h"

namespace lra::listops {
namespace {

namespace fs = std::filesystem;

int64_t value_of(const std::string& text) { return evaluate(from_source(text)); }

std::string fingerprint_of(const PrepareOptions& options) {
  task("listops").prepare(options);
  return Manifest::read(options.out / "listops" / "manifest.json").fingerprint();
}

TEST(ListOps, ValuesByHand) {
  EXPECT_EQ(value_of("[MIN 3 1 2 ]"), 1);
  EXPECT_EQ(value_of("[MAX 3 1 2 ]"), 3);
  EXPECT_EQ(value_of("[SM 9 8 7 ]"), 4);
  EXPECT_EQ(value_of("[MED 9 1 4 ]"), 4);
  EXPECT_EQ(value_of("[MED 1 4 ]"), 2);      // 2.5 truncated
  EXPECT_EQ(value_of("[MED 1 2 9 8 ]"), 5);  // the middle two, 2 and 8
  EXPECT_EQ(value_of("[MAX 2 [SM 3 4 ] [MIN 9 [MED 8 8 ] ] ]"), 8);
  EXPECT_EQ(value_of("7"), 7);
}

TEST(ListOps, EveryReferenceRowHasItsLabelAndItsText) {
  std::ifstream file(LRA_SOURCE_DIR "/tests/reference/listops_ref.tsv");
  std::string row;
  std::getline(file, row);
  int rows = 0;
  while (std::getline(file, row)) {
    if (row.ends_with('\r')) row.pop_back();
    const std::string source = row.substr(0, row.find('\t'));
    EXPECT_EQ(std::to_string(value_of(source)), row.substr(row.find('\t') + 1)) << "row " << rows;
    EXPECT_EQ(to_source(from_source(source)), source) << "row " << rows;
    ++rows;
  }
  EXPECT_EQ(rows, 100);
}

TEST(ListOps, TextOfAnExpression) {
  const std::vector<uint16_t> ids = from_source("( ( ( [SM 4 ) 7 ) ] )");
  EXPECT_EQ(render(ids), "[SM 4 7 ]");
  EXPECT_EQ(to_source(ids), "( ( ( [SM 4 ) 7 ) ] )");
  EXPECT_EQ(render(std::vector<uint16_t>{0, 1, 99}), "<0> [MIN <99>");
}

TEST(ListOps, WhatIsNoExpressionIsRefused) {
  EXPECT_EQ(error_text([] { value_of("[MIN 1 2"); }), "1 lists are not closed");
  EXPECT_EQ(error_text([] { value_of("[MIN 1 2 ] 3"); }), "the expression goes on after its end");
  EXPECT_EQ(error_text([] { value_of("]"); }), "']' closes no list");
  EXPECT_EQ(error_text([] { value_of("[MIN ]"); }), "[MIN has no arguments");
  EXPECT_EQ(error_text([] { value_of("( )"); }), "the expression is empty");
  EXPECT_EQ(error_text([] { value_of("[MUL 1 2 ]"); }),
            "unknown token '[MUL'; ListOps has [MIN [MAX [MED [SM ] ( ) and the digits 0 to 9");
}

TEST(ListOps, AnyNumberOfThreadsGivesTheSameFiles) {
  Scratch scratch;
  std::set<std::string> fingerprints;
  for (const int64_t threads : {1, 2, 7}) {
    fingerprints.insert(fingerprint_of({.out = scratch.path() / std::to_string(threads),
                                        .seed = 3,
                                        .train = 3000,
                                        .dev = 100,
                                        .test = 100,
                                        .threads = threads}));
  }
  EXPECT_EQ(fingerprints.size(), 1u);
  EXPECT_NE(*fingerprints.begin(), fingerprint_of({.out = scratch.path() / "other seed",
                                                   .seed = 4,
                                                   .train = 3000,
                                                   .dev = 100,
                                                   .test = 100}));
}

// Short trees, which repeats leave out later on, are as frequent in every split.
TEST(ListOps, SplitsOfShortTreesAreAlike) {
  Scratch scratch;
  task("listops").prepare({.out = scratch.path(),
                           .train = 6000,
                           .dev = 1500,
                           .test = 1500,
                           .min_length = 3,
                           .max_length = 12});
  const PreparedData data(scratch.path(), "listops", /*check_hashes=*/true);
  EXPECT_EQ(data.manifest().generator, "listops/2");
  std::map<std::string, double> shares;
  for (const char* name : kSplits) {
    const Split& split = data.split(name);
    int64_t brief = 0;
    for (int64_t i = 0; i < split.size(); ++i) brief += split.length(i) <= 5;
    shares[name] = static_cast<double>(brief) / static_cast<double>(split.size());
  }
  // 0.26, 0.19 and 0.16 in the order of drawing; a standard error of the difference is 0.012.
  EXPECT_NEAR(shares["train"], shares["dev"], 0.045);
  EXPECT_NEAR(shares["train"], shares["test"], 0.045);
}

// Published records name data by them.
TEST(ListOps, TheDataOfASeedNeverChange) {
  Scratch scratch;
  EXPECT_EQ(fingerprint_of(
                {.out = scratch.path() / "long", .seed = 3, .train = 300, .dev = 20, .test = 20}),
            "f0e3e0791886c226a7b067785cdfe923fc1b09e13a0d6b0e3c2023bfb6c5d4bc");
  EXPECT_EQ(fingerprint_of({.out = scratch.path() / "short",
                            .seed = 3,
                            .train = 300,
                            .dev = 20,
                            .test = 20,
                            .min_length = 3,
                            .max_length = 12}),
            "d8d12a2f58571b185ac7fb577e337fb87eb0f96b86527ac40a73b801c893d215");
}

TEST(SlowListOps, TheDataOfTheDefaultSizesNeverChange) {
  Scratch scratch;
  EXPECT_EQ(fingerprint_of({.out = scratch.path()}),
            "3114a0f0f16c73aef6fb445c7c75cd6e1bb5b82df076e09812c9f10e710af887");
}

TEST(ListOps, SamplesAreDistinctWithinBoundsAndLabelledRight) {
  Scratch scratch;
  // Short ones repeat often, so that only deduplication keeps them apart.
  task("listops").prepare({.out = scratch.path(),
                           .train = 3000,
                           .dev = 500,
                           .test = 500,
                           .min_length = 3,
                           .max_length = 12});
  const PreparedData data(scratch.path(), "listops", /*check_hashes=*/true);
  std::set<std::string> texts;
  for (const char* split : kSplits) {
    for (int64_t i = 0; i < data.split(split).size(); ++i) {
      std::vector<int64_t> ids(static_cast<size_t>(data.split(split).length(i)));
      data.split(split).copy(i, 0, data.split(split).length(i), ids.data());
      const std::vector<uint16_t> tree(ids.begin(), ids.end());
      EXPECT_GT(tree.size(), 3u);
      EXPECT_LT(tree.size(), 12u);
      EXPECT_EQ(evaluate(tree), data.split(split).label(i));
      texts.insert(render(tree));
    }
  }
  EXPECT_EQ(texts.size(), 4000u);
  EXPECT_EQ(data.manifest().options["min_length"], 3);
  EXPECT_EQ(data.manifest().options["seed"], 0);
  EXPECT_FALSE(data.manifest().synthetic);
}

// Drawing must not depend on where a tree that is too long was given up.
TEST(ListOps, ATreeThatFitsIsTheSameUnderAnyBound) {
  std::vector<uint16_t> narrow, wide;
  int compared = 0;
  for (uint64_t i = 0; i < 2000; ++i) {
    CounterRandom first(1, i), second(1, i);
    if (!draw_tree(first, {.min_length = 5, .max_length = 300}, narrow)) continue;
    ASSERT_TRUE(draw_tree(second, {.min_length = 5, .max_length = 3000}, wide));
    EXPECT_EQ(narrow, wide);
    ++compared;
  }
  EXPECT_GT(compared, 50);
}

TEST(ListOps, ImpossibleRequestsEndWithAReason) {
  Scratch scratch;
  const fs::path out = scratch.path() / "out";
  EXPECT_EQ(error_text([&] {
              task("listops").prepare({.out = out, .min_length = 500, .max_length = 501});
            }),
            "ListOps needs lengths between --min-length 500 and --max-length 501 (both excluded)");
  // 10 digits and the lists of two digits: 410 expressions in all.
  EXPECT_EQ(
      error_text([&] {
        task("listops").prepare(
            {.out = out, .train = 1000, .dev = 1, .test = 1, .min_length = 0, .max_length = 5});
      }),
      "found only 410 of 1002 distinct ListOps expressions of more than 0 and fewer than 5 tokens; "
      "widen --min-length and --max-length or ask for fewer");
  EXPECT_FALSE(fs::exists(out / "listops"));
}

TEST(ListOps, AStopLeavesNothing) {
  Scratch scratch;
  const std::atomic<bool> stop{true};
  EXPECT_EQ(
      error_text([&] { task("listops").prepare({.out = scratch.path() / "out", .stop = &stop}); }),
      "stopped while generating ListOps; nothing was written");
  EXPECT_FALSE(fs::exists(scratch.path() / "out"));
}

TEST(SlowListOps, FullSizeInUnderAMinute) {
  Scratch scratch;
  const auto begin = std::chrono::steady_clock::now();
  task("listops").prepare({.out = scratch.path()});
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(seconds.count(), 60);
  const PreparedData data(scratch.path(), "listops", /*check_hashes=*/true);
  EXPECT_EQ(data.split("train").size(), 96000);
  EXPECT_EQ(data.split("dev").size(), 2000);
  EXPECT_EQ(data.split("test").size(), 2000);
}

TEST(SlowListOps, AnyNumberOfThreadsGivesTheSameFilesAtFullSize) {
  Scratch scratch;
  std::set<std::string> fingerprints;
  for (const int64_t threads : {1, 2, 7}) {
    fingerprints.insert(fingerprint_of(
        {.out = scratch.path() / std::to_string(threads), .seed = 0, .threads = threads}));
  }
  EXPECT_EQ(fingerprints.size(), 1u);
}

}  // namespace
}  // namespace lra::listops
