// Batches: what is in them, and in which order.
#include "lra/data/loader.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <utility>

#include "tests/support/scratch.h"

namespace lra {
namespace {

// Sample i holds i % 5 + 1 tokens of id i + 1 (the second input: one more, of id 200 + i) and has
// the label i % 3. Id 0 stands in the middle of sample 4.
class Loader : public ::testing::Test {
 protected:
  Split make(int64_t count, int64_t inputs = 1) {
    SplitWriter writer(inputs);
    for (int64_t i = 0; i < count; ++i) {
      std::vector<uint16_t> ids(static_cast<size_t>(i % 5 + 1), static_cast<uint16_t>(i + 1));
      if (i == 4) ids[2] = 0;
      writer.tokens(ids);
      if (inputs == 2)
        writer.tokens(std::vector<uint16_t>(ids.size() + 1, static_cast<uint16_t>(200 + i)));
      writer.label(i % 3);
    }
    writer.write(scratch_.path() / "s.safetensors", 256);
    return Split(scratch_.path() / "s.safetensors", inputs, 3, 256);
  }
  Scratch scratch_;
};

bool same(const Batch& a, const Batch& b) {
  return torch::equal(a.tokens, b.tokens) && torch::equal(a.mask, b.mask) &&
         torch::equal(a.labels, b.labels) && torch::equal(a.index, b.index);
}

TEST_F(Loader, SamplesArePaddedCutAndMasked) {
  const Split split = make(7);
  EvaluationPass pass(split, {.batch = 5, .length = 4});
  Batch batch;
  ASSERT_TRUE(pass.next(batch));
  const auto i64 = torch::kInt64;
  EXPECT_TRUE(
      torch::equal(batch.tokens.squeeze(1),
                   torch::tensor({1, 0, 0, 0, 2, 2, 0, 0, 3, 3, 3, 0, 4, 4, 4, 4, 5, 5, 0, 5}, i64)
                       .view({5, 4})));
  EXPECT_TRUE(
      torch::equal(batch.mask.squeeze(1).to(i64),
                   torch::tensor({1, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1}, i64)
                       .view({5, 4})));
  EXPECT_TRUE(torch::equal(batch.labels, torch::tensor({0, 1, 2, 0, 1}, i64)));
  ASSERT_TRUE(pass.next(batch));
  EXPECT_TRUE(torch::equal(batch.index, torch::tensor({5, 6}, i64)));
  EXPECT_EQ(batch.tokens.sizes(), (std::vector<int64_t>{2, 1, 4}));
  EXPECT_FALSE(pass.next(batch));
  EXPECT_FALSE(pass.next(batch));
}

TEST_F(Loader, NonzeroMaskTakesIdZeroForPadding) {
  const Split split = make(5);
  EvaluationPass pass(split, {.batch = 5, .length = 4, .mask = InputMask::nonzero});
  Batch batch;
  ASSERT_TRUE(pass.next(batch));
  EXPECT_TRUE(torch::equal(batch.mask, batch.tokens != 0));
  EXPECT_FALSE(batch.mask[4][0][2].item<bool>());
}

TEST_F(Loader, TwoInputsASample) {
  const Split split = make(3, /*inputs=*/2);
  EvaluationPass pass(split, {.batch = 3, .length = 4});
  Batch batch;
  ASSERT_TRUE(pass.next(batch));
  EXPECT_EQ(batch.tokens.sizes(), (std::vector<int64_t>{3, 2, 4}));
  EXPECT_TRUE(torch::equal(
      batch.tokens[1], torch::tensor({2, 2, 0, 0, 201, 201, 201, 0}, torch::kInt64).view({2, 4})));
}

TEST(ShareOf, IsContiguousAndEven) {
  for (const int64_t count : {0, 1, 7, 8, 10, 32}) {
    for (const int64_t shares : {1, 2, 3, 4, 8}) {
      int64_t end = 0;
      for (int64_t i = 0; i < shares; ++i) {
        const Range share = share_of(count, i, shares);
        EXPECT_EQ(share.begin, end);
        EXPECT_GE(share.end - share.begin, count / shares);
        EXPECT_LE(share.end - share.begin, (count + shares - 1) / shares);
        end = share.end;
      }
      EXPECT_EQ(end, count);
    }
  }
  EXPECT_EQ(share_of(10, 1, 4).begin, 3) << "the first shares are the larger ones";
}

// Together the shares are the batches, across the ends of epochs too.
TEST_F(Loader, SharesOfAStreamMakeItsBatches) {
  const Split split = make(7);
  const LoaderOptions whole{.batch = 5, .length = 4, .shuffle = true, .seed = 3};
  TrainingStream all(split, whole, /*start_batch=*/1);
  std::vector<std::unique_ptr<TrainingStream>> streams;
  for (int64_t i = 0; i < 3; ++i) {
    LoaderOptions part = whole;
    part.samples = share_of(5, i, 3);
    streams.push_back(std::make_unique<TrainingStream>(split, part, /*start_batch=*/1));
  }
  for (int step = 0; step < 6; ++step) {
    const Batch expected = all.next();
    std::vector<torch::Tensor> tokens, mask, labels, index;
    for (const auto& stream : streams) {
      const Batch batch = stream->next();
      tokens.push_back(batch.tokens);
      mask.push_back(batch.mask);
      labels.push_back(batch.labels);
      index.push_back(batch.index);
    }
    EXPECT_TRUE(same({torch::cat(tokens), torch::cat(mask), torch::cat(labels), torch::cat(index)},
                     expected))
        << step;
  }
}

TEST_F(Loader, SharesOfAPassMakeIt) {
  const Split split = make(12);
  for (const bool drop_last : {false, true}) {
    for (const bool by_length : {false, true}) {
      const LoaderOptions whole{
          .batch = 5, .length = 4, .drop_last = drop_last, .by_length = by_length};
      const int64_t count = EvaluationPass::batch_count(split, whole), shares = 4;
      ASSERT_EQ(count, drop_last ? 2 : 3);
      std::vector<std::unique_ptr<EvaluationPass>> passes;  // more than batches: some are empty
      for (int64_t i = 0; i < shares; ++i) {
        LoaderOptions part = whole;
        part.batches = {.index = i, .of = shares};
        passes.push_back(std::make_unique<EvaluationPass>(split, part));
      }
      EvaluationPass all(split, whole);
      Batch expected, batch;
      for (int64_t i = 0; all.next(expected); ++i) {
        ASSERT_TRUE(passes[static_cast<size_t>(i % shares)]->next(batch)) << i;
        EXPECT_TRUE(same(batch, expected)) << i;
      }
      for (const auto& pass : passes) EXPECT_FALSE(pass->next(batch));
    }
  }
}

// The longer input of a sample, the first and the second by turns, decides; the other one has half
// its tokens.
TEST_F(Loader, APassByLengthPadsEachBatchToItsLongest) {
  SplitWriter writer(2);
  const std::vector<size_t> lengths = {150, 3, 70, 64, 0, 65, 2};
  for (size_t i = 0; i < lengths.size(); ++i) {
    writer.tokens(std::vector<uint16_t>(i % 2 == 0 ? lengths[i] : lengths[i] / 2, 5));
    writer.tokens(std::vector<uint16_t>(i % 2 == 0 ? lengths[i] / 2 : lengths[i], 5));
    writer.label(static_cast<int64_t>(lengths[i]) % 3);
  }
  writer.write(scratch_.path() / "lengths.safetensors", 256);
  const Split split(scratch_.path() / "lengths.safetensors", 2, 3, 256);
  const auto passed = [&](LoaderOptions options) {
    options.batch = 2;
    options.by_length = true;
    std::vector<std::pair<std::vector<int64_t>, int64_t>> batches;  // rows, and the length
    EvaluationPass pass(split, options);
    for (Batch batch; pass.next(batch);) {
      const auto* rows = batch.index.data_ptr<int64_t>();
      batches.push_back({{rows, rows + batch.index.numel()}, batch.tokens.size(2)});
      for (int64_t b = 0; b < batch.index.numel(); ++b) {
        const auto tokens = std::min(static_cast<int64_t>(lengths[rows[b]]), options.length);
        const int64_t longer = rows[b] % 2;
        EXPECT_EQ(batch.mask[b][longer].sum().item<int64_t>(), tokens);
        EXPECT_EQ(batch.tokens[b][longer].sum().item<int64_t>(), 5 * tokens);
        EXPECT_EQ(batch.labels[b].item<int64_t>(), static_cast<int64_t>(lengths[rows[b]]) % 3);
      }
    }
    return batches;
  };
  using Batches = std::vector<std::pair<std::vector<int64_t>, int64_t>>;
  EXPECT_EQ(passed({.length = 1000}),
            (Batches{{{0, 2}, 192}, {{5, 3}, 128}, {{1, 6}, 64}, {{4}, 64}}));
  EXPECT_EQ(passed({.length = 100}),
            (Batches{{{0, 2}, 100}, {{5, 3}, 100}, {{1, 6}, 64}, {{4}, 64}}));
  EXPECT_EQ(passed({.length = 100, .drop_last = true}),
            (Batches{{{0, 2}, 100}, {{5, 3}, 100}, {{1, 4}, 64}}))
      << "the last sample of the split is left out, not the shortest";
}

TEST_F(Loader, AStreamOverSeveralSplitsGoesThroughThemAsIfTheyWereOne) {
  const Split all = make(7);
  SplitWriter parts[2];
  for (int64_t i = 0; i < 7; ++i) {
    std::vector<int64_t> wide(static_cast<size_t>(all.length(i)));
    all.copy(i, 0, all.length(i), wide.data());
    parts[i / 3 > 0].tokens(std::vector<uint16_t>(wide.begin(), wide.end()));
    parts[i / 3 > 0].label(all.label(i));
  }
  std::vector<Split> splits;
  for (const SplitWriter& part : parts) {
    const auto path = scratch_.path() / ("part" + std::to_string(splits.size()));
    part.write(path, 256);
    splits.emplace_back(path, 1, 3, 256);
  }
  const LoaderOptions options{.batch = 3, .length = 4, .shuffle = true, .seed = 2};
  TrainingStream one(all, options, /*start_batch=*/1), several(splits, options, /*start_batch=*/1);
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(same(one.next(), several.next()));
}

TEST_F(Loader, DropLastLeavesOutTheShortBatch) {
  const Split split = make(7);
  EvaluationPass pass(split, {.batch = 3, .length = 4, .drop_last = true});
  Batch batch;
  int batches = 0;
  while (pass.next(batch)) ++batches;
  EXPECT_EQ(batches, 2);
}

// Image, Pathfinder, Retrieval and Text, whose last batches are not whole.
TEST_F(Loader, DropLastCountsTheSamplesThatItGives) {
  struct Case {
    int64_t size;
    std::vector<int64_t> batches;
    int64_t count;
  };
  for (const Case& c : {Case{10'000, {32, 64, 256}, 9'984}, Case{20'000, {128, 256, 512}, 19'968},
                        Case{17'437, {32}, 17'408}, Case{25'000, {32}, 24'992}}) {
    SplitWriter writer;
    for (int64_t i = 0; i < c.size; ++i) {
      writer.tokens(std::vector<uint16_t>{1});
      writer.label(0);
    }
    writer.write(scratch_.path() / "size.safetensors", 256);
    const Split split(scratch_.path() / "size.safetensors", 1, 3, 256);
    for (const int64_t batch : c.batches) {
      const LoaderOptions options{.batch = batch, .length = 1, .drop_last = true};
      EXPECT_EQ(EvaluationPass::sample_count(split, options), c.count) << c.size << " " << batch;
      EvaluationPass pass(split, options);
      Batch one;
      int64_t given = 0;
      while (pass.next(one)) given += one.labels.size(0);
      EXPECT_EQ(given, c.count) << c.size << " " << batch;
      EXPECT_EQ(EvaluationPass::sample_count(split, {.batch = batch, .length = 1}), c.size);
    }
  }
}

TEST_F(Loader, AStreamStartedAnywhereGoesOnAsAnUndisturbedOne) {
  const Split split = make(23);
  for (const int64_t prefetch : {0, 1, 3}) {
    const LoaderOptions options{
        .batch = 7, .length = 5, .shuffle = true, .seed = 11, .prefetch = prefetch};
    TrainingStream whole(split, options);
    std::vector<Batch> batches;
    for (int i = 0; i < 12; ++i) batches.push_back(whole.next());
    for (const int64_t start : {1, 3, 4, 10}) {
      TrainingStream later(split, options, start);
      for (size_t p = static_cast<size_t>(start); p < 12; ++p) {
        EXPECT_TRUE(same(later.next(), batches[p]))
            << "ahead " << prefetch << " start " << start << " batch " << p;
      }
    }
  }
}

TEST_F(Loader, EveryEpochIsAFreshPermutation) {
  const Split split = make(23);
  TrainingStream stream(split, {.batch = 4, .length = 5, .shuffle = true, .seed = 1});
  std::vector<int64_t> positions;
  for (int i = 0; i < 23; ++i) {
    const torch::Tensor index = stream.next().index;
    for (int64_t b = 0; b < 4; ++b) positions.push_back(index[b].item<int64_t>());
  }
  std::set<std::vector<int64_t>> orders;
  for (int epoch = 0; epoch < 4; ++epoch) {
    std::vector<int64_t> order(positions.begin() + 23 * epoch,
                               positions.begin() + 23 * (epoch + 1));
    EXPECT_EQ(order, epoch_permutation(23, 1, epoch));
    EXPECT_EQ(std::set<int64_t>(order.begin(), order.end()).size(), 23u);
    orders.insert(order);
  }
  EXPECT_EQ(orders.size(), 4u);
  EXPECT_NE(epoch_permutation(23, 1, 0), epoch_permutation(23, 2, 0));
}

TEST_F(Loader, ABatchLargerThanTheSplitSpansEpochs) {
  const Split split = make(3);
  TrainingStream stream(split, {.batch = 8, .length = 5});
  EXPECT_TRUE(
      torch::equal(stream.next().index, torch::tensor({0, 1, 2, 0, 1, 2, 0, 1}, torch::kInt64)));
  EXPECT_TRUE(
      torch::equal(stream.next().index, torch::tensor({2, 0, 1, 2, 0, 1, 2, 0}, torch::kInt64)));
}

TEST_F(Loader, ErrorsOnTheThreadReachTheCaller) {
  const Split split = make(3);
  // More memory than there is; both calls must throw rather than wait.
  TrainingStream stream(split, {.batch = 1, .length = int64_t{1} << 60, .prefetch = 2});
  EXPECT_ANY_THROW(stream.next());
  EXPECT_ANY_THROW(stream.next());
}

TEST_F(Loader, EndingEarlyDoesNotHang) {
  const Split split = make(23);
  for (int i = 0; i < 200; ++i) {
    TrainingStream stream(split, {.batch = 4, .length = 5, .shuffle = true, .prefetch = 1 + i % 3});
    if (i % 2 == 0) stream.next();
    EvaluationPass pass(split, {.batch = 4, .length = 5, .prefetch = 1});
  }
}

TEST_F(Loader, WrongOptionsAreRefused) {
  const Split split = make(3), empty = make(0);
  EXPECT_EQ(error_text([&] { TrainingStream(split, {.batch = 0, .length = 5}); }),
            "a loader needs batch >= 1, length >= 1 and prefetch >= 0, not 0, 5 and 2");
  EXPECT_EQ(error_text([&] { TrainingStream(split, {.batch = 1}, -1); }),
            "a stream starts at batch 0 or later, not -1");
  EXPECT_EQ(error_text([&] { TrainingStream(empty, {.batch = 1}); }),
            "cannot train on a split without samples");
}

}  // namespace
}  // namespace lra
