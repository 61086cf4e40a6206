// What LRA's released code does to an attention, each trait by itself: tests that fail where ours
// is written as one would expect it. Whole outputs are held to the released code by
// tests/harness/commands/released_test.cpp.
#include <cmath>

#include "tests/attention_variants/testing.h"

namespace lra {
namespace {

AttentionContext released_context(int64_t length) {
  return {.width = 8,
          .heads = 2,
          .head_dim = 4,
          .max_length = length,
          .seed = 3,
          .padded_rows = PaddedRows::uniform};
}

// How far every row of the output moves where key and value of one position change: [N].
torch::Tensor rows_moved_by(Attention& attention, const Inputs& in, int64_t position) {
  Inputs other = in;
  other.k = in.k.clone();
  other.v = in.v.clone();
  other.k.select(2, position) += 2;
  other.v.select(2, position) += 2;
  return (attend(attention, other) - attend(attention, in)).abs().amax({0, 1, 3});
}

double row(const torch::Tensor& moved, int64_t position) {
  return moved[position].item().toDouble();
}

// ---- Sparse with an open class token (D6): position 0 is that token, and token t stands at t + 1.

// float64 goes by LibTorch's operators, float32 by the own kernels.
class SparseOpenTrap : public testing::TestWithParam<torch::ScalarType> {
 protected:
  std::shared_ptr<Attention> attention_ =
      make("sparse[block=50,summary=10,causal=true,cls=open]", GetParam(), released_context(151));
  Inputs in_ = make_inputs({151}, 151, GetParam());
};

INSTANTIATE_TEST_SUITE_P(Types, SparseOpenTrap, testing::Values(torch::kDouble, torch::kFloat));

TEST_P(SparseOpenTrap, TheClassTokenSeesTheLastTokenAndNoEarlierOneDoes) {
  for (const int64_t token : {149, 75, 30}) {
    const torch::Tensor moved = rows_moved_by(*attention_, in_, token + 1);
    EXPECT_GT(row(moved, 0), 1e-6) << "the class token, of token " << token;
    EXPECT_GT(row(moved, token + 1), 1e-6) << token;
    EXPECT_EQ(moved.narrow(0, 1, token).max().item<double>(), 0) << "earlier tokens, of " << token;
  }
  // And it is seen by all.
  EXPECT_GT(rows_moved_by(*attention_, in_, 0).min().item<double>(), 1e-6);
}

// Token 30 is no summary column: only its own block sees it.
TEST_P(SparseOpenTrap, BlocksCountFromTheFirstTokenAndNotFromTheClassToken) {
  const torch::Tensor moved = rows_moved_by(*attention_, in_, 31);
  EXPECT_GT(row(moved, 1 + 49), 1e-6) << "token 49 is in block 0";
  EXPECT_EQ(row(moved, 1 + 50), 0) << "token 50 is in block 1";
}

// ---- Local attention over strided groups (D7)

// 101 positions and 49 zeros are 3 groups of 50.
TEST(StridedGroupsTrap, LocalSeesEveryThirdPositionAndNotItsNeighbour) {
  const auto attention = make("local_tay2020[block=50]", torch::kDouble, released_context(101));
  const Inputs in = make_inputs({101}, 101);
  for (const auto& [position, seen] : {std::pair{3, true}, {99, true}, {1, false}, {2, false}})
    EXPECT_EQ(row(rows_moved_by(*attention, in, position), 0) > 1e-6, seen) << position;
  // Where N divides, a whole block of zeros is appended: 100 positions are 3 groups too, not 2.
  const Inputs whole = make_inputs({100}, 100);
  EXPECT_EQ(row(rows_moved_by(*attention, whole, 2), 0), 0);
  EXPECT_GT(row(rows_moved_by(*attention, whole, 3), 0), 1e-6);
}

// ---- Sinkhorn without sorting (D8)

// softmax over the own group plus softmax over the sums of runs, one number at a time.
torch::Tensor unsorted_by_hand(const Inputs& in, int64_t block) {
  const int64_t length = in.q.size(2), groups = length / block, d = in.q.size(3);
  const double scale = 1 / std::sqrt(static_cast<double>(d));
  torch::Tensor out = torch::zeros_like(in.q);
  for (int64_t b = 0; b < in.q.size(0); ++b) {
    for (int64_t h = 0; h < in.q.size(1); ++h) {
      const torch::Tensor q = in.q[b][h], k = in.k[b][h], v = in.v[b][h];  // [N,d]
      const torch::Tensor key_sums = torch::zeros({block, d}, torch::kDouble),
                          value_sums = torch::zeros({block, d}, torch::kDouble);
      for (int64_t j = 0; j < length; ++j) {
        key_sums[j / groups] += k[j];
        value_sums[j / groups] += v[j];
      }
      for (int64_t i = 0; i < length; ++i) {
        torch::Tensor own = torch::zeros({block}, torch::kDouble);
        for (int64_t s = 0; s < block; ++s) own[s] = scale * q[i].dot(k[s * groups + i % groups]);
        own = torch::softmax(own, 0);
        for (int64_t s = 0; s < block; ++s) out[b][h][i] += own[s] * v[s * groups + i % groups];
        out[b][h][i] += torch::softmax(scale * key_sums.matmul(q[i]), 0).matmul(value_sums);
      }
    }
  }
  return out;
}

TEST(UnsortedSinkhornTrap, EqualsTheSumsOfRunsByHand) {
  const Inputs in = make_inputs({24, 24}, 24);
  const auto attention = make("sinkhorn_tay2020[block=8]", torch::kDouble, released_context(24));
  EXPECT_LT(difference(attend(*attention, in), unsorted_by_hand(in, 8)), 1e-13);
}

TEST(UnsortedSinkhornTrap, EveryParameterHasAGradientAndNoneSorts) {
  AttentionContext context = released_context(24);
  context.bias = false;
  const auto attention = make("sinkhorn_tay2020[block=8]", torch::kDouble, context);
  const torch::Tensor x = torch::randn({2, 24, 8}, torch::kDouble);
  attention->forward(x, torch::ones({2, 24}, torch::kBool)).square().sum().backward();
  std::vector<std::string> names;
  for (const auto& item : attention->named_parameters()) {
    names.push_back(item.key());
    ASSERT_TRUE(item.value().grad().defined()) << item.key();
    EXPECT_GT(item.value().grad().abs().min().item<double>(), 0) << item.key();
  }
  EXPECT_EQ(names, (std::vector<std::string>{"query.weight", "key.weight", "value.weight",
                                             "output.weight"}));
}

// ---- Padded queries (D10)

TEST(UniformRowsTrap, APaddedQueryIsTheMeanOfAllValues) {
  Inputs in = make_inputs({40, 23}, 40);
  for (const char* spec :
       {"standard", "standard[implementation=materialized]",
        "sparse[block=8,summary=3,causal=true]", "sparse[block=8,summary=3,causal=true,cls=open]",
        "longformer[window=8,window_form=counted]", "synthesizer_tay2020"}) {
    for (const auto type : {torch::kDouble, torch::kFloat}) {
      const auto attention = make(spec, type, released_context(40));
      Inputs typed = in;
      for (torch::Tensor* x : {&typed.q, &typed.k, &typed.v}) *x = x->to(type);
      const torch::Tensor rows = attend(*attention, typed)[1].narrow(1, 23, 17),  // [H,17,d]
          mean = typed.v[1].mean(1, /*keepdim=*/true);
      EXPECT_LT((rows - mean).abs().max().item<double>(), 1e-6) << spec;
    }
  }
}

// With M keys, dS = (dP - mean dP) / M goes on into q of such a row and k of all keys.
TEST(UniformRowsTrap, ItsGradientReachesQueriesAndKeys) {
  for (const char* spec : {"standard", "sparse[block=8,summary=3,causal=true,cls=open]"}) {
    Inputs in = make_inputs({23}, 40);
    for (torch::Tensor* x : {&in.q, &in.k, &in.v}) x->requires_grad_();
    const auto attention = make(spec, torch::kDouble, released_context(40));
    torch::Tensor gradient = torch::zeros_like(in.q);  // [1,H,N,d]
    gradient.narrow(2, 23, 17).normal_();
    attend(*attention, in).backward(gradient);
    const torch::Tensor weights = gradient.matmul(in.v.detach().transpose(-2, -1)),  // dP
        scores = (weights - weights.mean(-1, /*keepdim=*/true)) / 40 / 2;  // and the scale, 1/√4
    EXPECT_GT(scores.abs().max().item<double>(), 1e-3);
    EXPECT_LT(difference(in.q.grad(), scores.matmul(in.k.detach())), 1e-12) << spec;
    EXPECT_LT(difference(in.k.grad(), scores.transpose(-2, -1).matmul(in.q.detach())), 1e-12)
        << spec;
  }
}

// ---- Synthesizer with products (D11)

TEST(SynthesizerProductsTrap, WithoutItsBiasItIsStandardAttention) {
  const auto synthesizer = make("synthesizer_tay2020", torch::kDouble, released_context(30)),
             standard = make("standard", torch::kDouble, released_context(30));
  auto theirs = standard->named_parameters();
  const torch::NoGradGuard no_grad;
  const torch::Tensor x = torch::randn({2, 30, 8}, torch::kDouble),
                      mask = length_mask({30, 17}, 30);
  const torch::Tensor expected = standard->forward(x, mask);
  size_t taken = 0;
  for (auto& item : synthesizer->named_parameters()) {
    if (item.key() == "r") continue;
    item.value().copy_(theirs[item.key()]);
    ++taken;
  }
  EXPECT_EQ(taken, theirs.size()) << "it has the projections to queries and keys";
  EXPECT_GT(difference(synthesizer->forward(x, mask), expected), 1e-4);
  synthesizer->named_parameters()["r"].zero_();
  EXPECT_LT(difference(synthesizer->forward(x, mask), expected), 1e-13);
}

// ---- Reformer (D12)

// Vectors of norm 200 see little but themselves. Position by position the heads are not brought
// back: 37 positions and 3 zeros are L = 40, and row p holds positions of head ⌊pH/L⌋.
TEST(ReformerReleaseTrap, ARowHoldsNeighbouringPositionsOfOneHead) {
  Inputs in = make_inputs({37}, 37);
  in.q = 200 * in.q / in.q.norm(2, -1, /*keepdim=*/true);
  in.k = in.q;
  const auto attention = make("reformer_tay2020", torch::kDouble, released_context(37));
  const torch::Tensor out = attend(*attention, in);
  constexpr int64_t kHeads = 2, kWhole = 40;
  int64_t compared = 0;
  for (int64_t p = 0; p < 37; ++p) {
    for (int64_t part = 0; part < kHeads; ++part) {
      const int64_t at = p * kHeads + part, position = at % kWhole;
      if (position >= 37) continue;  // a zero's
      EXPECT_LT((out[0][part][p] - in.v[0][at / kWhole][position]).abs().max().item<double>(), 1e-6)
          << "row " << p << ", part " << part;
      ++compared;
    }
  }
  EXPECT_EQ(compared, 2 * 37 - 3);
}

// Nine positions and a zero are ten chunks of one: with rotations that give all of them bucket 0,
// position p sees itself and p - 1, so that its output tells the difference of two logits.
TEST(ReformerReleaseTrap, LogitsAreProductsTimesTheRootOfTheWidthUnnormalised) {
  const auto attention = make("reformer_tay2020", torch::kDouble,
                              {.width = 4, .heads = 1, .head_dim = 4, .max_length = 9, .seed = 3});
  attention->set_table("rotations", torch::arange(5, 0, -1, torch::kFloat).expand({1, 4, 1, 5}));
  const torch::Tensor size = 0.1 + 0.05 * torch::arange(9, torch::kDouble);  // of every element
  const auto logits = [&](double scale) {
    const torch::Tensor x = (scale * size).view({1, 1, 9, 1}).expand({1, 1, 9, 4}).contiguous();
    torch::Tensor v = torch::zeros({1, 1, 9, 4}, torch::kDouble);
    v.slice(2, 1, 9, 2).fill_(1);
    const torch::Tensor out = attention->attend(x, x, v, torch::ones({1, 9}, torch::kBool));
    const torch::Tensor weight = out.select(3, 0).flatten().slice(0, 1, 9, 2);  // of itself
    return (weight / (1 - weight)).log();
  };
  const torch::Tensor odd = size.slice(0, 1, 9, 2), before = size.slice(0, 0, 8, 2);
  const torch::Tensor expected = 2 * 4 * odd * (odd - before);  // √4, and four elements
  EXPECT_LT(difference(logits(1), expected), 1e-12);
  EXPECT_LT(difference(logits(2), 4 * expected), 1e-12);
}

TEST(ReformerReleaseTrap, HeadsShareOutTheWidthAndNothingFollowsThem) {
  EXPECT_THROW(make("reformer_tay2020", torch::kDouble,
                    {.width = 8, .heads = 2, .head_dim = 2, .max_length = 9, .seed = 3}),
               UsageError);
  const auto attention = make("reformer_tay2020", torch::kDouble, released_context(9));
  for (const auto& item : attention->named_parameters())
    EXPECT_EQ(item.key().find("output"), std::string::npos) << item.key();
}

// ---- Padded queries

// How far rows of padding lie from what they are where no uniform ones are asked for.
double padded_rows_moved(const std::string& name) {
  const auto rows_of = [&](PaddedRows padded) {
    AttentionContext context = released_context(128);
    context.padded_rows = padded;
    context.bias = false;  // that of the output is at every row but those that are to be zero
    const auto attention = make(name, torch::kFloat, context);
    torch::manual_seed(1);
    const auto x = torch::randn({1, 128, 8});
    const torch::NoGradGuard no_grad;
    return attention->forward(x, length_mask({70}, 128)).narrow(1, 70, 58).clone();
  };
  return (rows_of(PaddedRows::uniform) - rows_of(PaddedRows::zero)).abs().max().item<double>();
}

TEST(UniformPadding, IsOfThoseThatSaySoAlone) {
  for (const auto& entries : {attention_entries(), released_forms()}) {
    for (const AttentionEntry* entry : entries) {
      const AttentionInfo& info = entry->info;
      const double moved = padded_rows_moved(info.name);
      EXPECT_EQ(moved > 1e-6, info.uniform_padding) << info.name << ": " << moved;
    }
  }
}

}  // namespace
}  // namespace lra
