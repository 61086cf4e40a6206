// Labels that are tokens of a batch: which are hidden, and what does not decide it.
#include "lra/data/objective.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "lra/data/loader.h"
#include "tests/support/scratch.h"

namespace lra {
namespace {

constexpr int64_t kHidden = 300;  // beyond all ids

// Sample i of `count` holds i % 60 + 1 tokens with ids from 1 on; of two inputs the second is one
// token longer.
class ObjectiveTest : public testing::Test {
 protected:
  Split make(int64_t count, int64_t inputs = 1) const {
    SplitWriter writer(inputs);
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t j = 0; j < inputs; ++j) {
        std::vector<uint16_t> ids(static_cast<size_t>(i % 60 + 1 + j));
        for (size_t k = 0; k < ids.size(); ++k)
          ids[k] = static_cast<uint16_t>(1 + (static_cast<size_t>(i) * 7 + k * 3) % 290);
        writer.tokens(ids);
      }
      writer.label(i % 3);
    }
    const auto path = scratch_.path() / ("s" + std::to_string(inputs) + ".safetensors");
    writer.write(path, kHidden);
    return Split(path, inputs, 3, kHidden);
  }
  static LoaderOptions options(Objective objective = Objective::masked, double share = 0.3) {
    return {.batch = 16,
            .length = 64,
            .shuffle = true,
            .seed = 5,
            .tokens = {.objective = objective, .share = share, .hidden_id = kHidden, .seed = 5}};
  }
  // The batches of a training stream, from `start` to before `end`.
  static std::vector<Batch> batches(const Split& split, LoaderOptions how, int64_t start,
                                    int64_t end, int64_t prefetch = 0) {
    how.prefetch = prefetch;
    TrainingStream stream(split, how, start);
    std::vector<Batch> all;
    for (int64_t i = start; i < end; ++i) all.push_back(stream.next());
    return all;
  }

  Scratch scratch_;
};

bool same_labelled(const Batch& a, const Batch& b) {
  return torch::equal(a.tokens, b.tokens) && torch::equal(a.labels, b.labels) &&
         torch::equal(a.mask, b.mask) && torch::equal(a.index, b.index);
}

TEST_F(ObjectiveTest, HidesRealTokensAloneAndLabelsThoseAlone) {
  const Split split = make(200, /*inputs=*/2);
  const Batch hidden = batches(split, options(), 0, 1)[0],
              plain = batches(split, options(Objective::classify), 0, 1)[0];
  ASSERT_EQ(hidden.labels.sizes(), hidden.tokens.sizes());
  ASSERT_EQ(plain.labels.dim(), 1);
  const torch::Tensor at = hidden.tokens.eq(kHidden);
  EXPECT_TRUE(torch::equal(at, hidden.labels.ge(0)));
  EXPECT_FALSE((at & hidden.mask.logical_not()).any().item<bool>()) << "padding";
  EXPECT_TRUE(torch::equal(torch::where(at, hidden.labels, hidden.tokens), plain.tokens));
  EXPECT_TRUE(hidden.labels.masked_select(at.logical_not()).eq(-1).all().item<bool>());
}

// Within five standard deviations of a binomial distribution; an input of which none would be
// hidden has one hidden.
TEST_F(ObjectiveTest, TheShareIsThatOfTheTokens) {
  const Split split = make(200);
  for (const double share : {0.15, 0.3, 0.5}) {
    LoaderOptions how = options(Objective::masked, share);
    how.batch = 200;
    const Batch batch = batches(split, how, 0, 1)[0];
    const torch::Tensor lengths = batch.mask.sum(-1), counts = batch.labels.ge(0).sum(-1);
    EXPECT_TRUE(counts.ge(1).all().item<bool>()) << share;
    // In long ones it is next to never that none would be.
    const torch::Tensor longer = lengths.ge(40);
    const double n = static_cast<double>(lengths.masked_select(longer).sum().item<int64_t>()),
                 hidden = static_cast<double>(counts.masked_select(longer).sum().item<int64_t>());
    EXPECT_NEAR(hidden, share * n, 5 * std::sqrt(n * share * (1 - share))) << share;
  }
  const Batch all = batches(split, options(Objective::masked, 1), 0, 1)[0];
  EXPECT_TRUE(torch::equal(all.tokens.eq(kHidden), all.mask));
  const Batch one = batches(split, options(Objective::masked, 1e-9), 0, 1)[0];
  EXPECT_TRUE(one.labels.ge(0).sum(-1).eq(1).all().item<bool>());
}

TEST_F(ObjectiveTest, NeitherThreadsNorTheStartOfAStreamDecideWhatIsHidden) {
  const Split split = make(50);
  const std::vector<Batch> alone = batches(split, options(), 0, 6),
                           ahead = batches(split, options(), 0, 6, /*prefetch=*/3),
                           resumed = batches(split, options(), 4, 6);
  for (size_t i = 0; i < alone.size(); ++i) EXPECT_TRUE(same_labelled(alone[i], ahead[i])) << i;
  EXPECT_TRUE(same_labelled(alone[4], resumed[0]));
  EXPECT_TRUE(same_labelled(alone[5], resumed[1]));
  LoaderOptions share = options();
  share.samples = {4, 9};
  const Batch part = batches(split, share, 3, 4)[0];
  EXPECT_TRUE(torch::equal(part.tokens, alone[3].tokens.slice(0, 4, 9)));
  EXPECT_TRUE(torch::equal(part.labels, alone[3].labels.slice(0, 4, 9)));
}

TEST_F(ObjectiveTest, SeedAndStepDecideIt) {
  const Split split = make(16);  // one batch an epoch: the same samples in each
  LoaderOptions how = options();
  how.shuffle = false;
  const std::vector<Batch> first = batches(split, how, 0, 2);
  EXPECT_TRUE(torch::equal(first[0].index, first[1].index));
  EXPECT_FALSE(torch::equal(first[0].labels, first[1].labels));
  how.tokens.seed = 6;
  EXPECT_FALSE(torch::equal(batches(split, how, 0, 1)[0].labels, first[0].labels));
}

TEST_F(ObjectiveTest, EveryEvaluationHidesTheSameHoweverFarItPads) {
  const Split split = make(40);
  const auto labels_by_row = [&](bool by_length) {
    LoaderOptions how = options();
    how.by_length = by_length;  // padded to 64 positions, else to 128
    how.length = 128;
    torch::Tensor all = torch::full({40, 128}, -1, torch::kInt64);
    EvaluationPass pass(split, how);
    for (Batch batch; pass.next(batch);) {
      const torch::Tensor rows =
          torch::constant_pad_nd(batch.labels.squeeze(1), {0, 128 - batch.labels.size(-1)}, -1);
      all.index_copy_(0, batch.index, rows);
    }
    return all;
  };
  EXPECT_TRUE(torch::equal(labels_by_row(false), labels_by_row(false)));
  EXPECT_TRUE(torch::equal(labels_by_row(false), labels_by_row(true)));
  LoaderOptions in_order = options();
  in_order.shuffle = false;
  in_order.batch = 40;
  in_order.length = 128;
  EXPECT_FALSE(
      torch::equal(batches(split, in_order, 0, 1)[0].labels.squeeze(1), labels_by_row(false)))
      << "no step of training hides what evaluation does";
}

TEST_F(ObjectiveTest, TheNextTokenIsTheLabelOfEachThatHasOne) {
  const Split split = make(70, /*inputs=*/2);
  const Batch next = batches(split, options(Objective::causal), 0, 1)[0],
              plain = batches(split, options(Objective::classify), 0, 1)[0];
  EXPECT_TRUE(torch::equal(next.tokens, plain.tokens));
  const torch::Tensor followed = next.mask.slice(-1, 0, 63) & next.mask.slice(-1, 1);
  EXPECT_TRUE(torch::equal(next.labels.slice(-1, 0, 63),
                           torch::where(followed, plain.tokens.slice(-1, 1),
                                        torch::full_like(followed, -1, torch::kInt64))));
  EXPECT_TRUE(next.labels.select(-1, 63).eq(-1).all().item<bool>());
}

}  // namespace
}  // namespace lra
