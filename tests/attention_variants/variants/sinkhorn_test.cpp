// Sparse Sinkhorn attention against its formula with every matrix written out, its limits, and what
// it holds in memory.
#include <cmath>

#include "tests/attention_variants/testing.h"

namespace lra {
namespace {

// s softmax attention of q [M,d] over the seen rows of k and v; zero where there is none.
torch::Tensor softmax_over(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                           const torch::Tensor& seen) {
  const torch::Tensor rows = seen.nonzero().flatten();
  if (rows.numel() == 0) return torch::zeros_like(q);
  const double s = 1 / std::sqrt(static_cast<double>(q.size(1)));
  return torch::softmax(s * q.matmul(k.index_select(0, rows).t()), -1)
      .matmul(v.index_select(0, rows));
}

// P [n,n] of logits L: the share of block j (row) that goes to block i (column).
torch::Tensor sorting(torch::Tensor logits, const std::string& sort) {
  if (sort == "softmax") return torch::softmax(logits, 1);
  torch::Tensor p = torch::exp(logits / 0.5);
  for (int i = 0; i < 3; ++i) {
    p = p / p.sum(1, /*keepdim=*/true);
    p = p / p.sum(0, /*keepdim=*/true);
  }
  return p;
}

// One sample and head: q, k, v [N,d], real [N].
torch::Tensor formula(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor real,
                      const torch::Tensor& weight, const torch::Tensor& bias, int64_t block,
                      const std::string& sort) {
  const int64_t length = q.size(0), n = (length + block - 1) / block;
  const auto blocks = [&](const torch::Tensor& x) {  // -> [n,b,d]
    const torch::Tensor kept = x * real.unsqueeze(1).to(torch::kDouble);
    return torch::constant_pad_nd(kept, {0, 0, 0, n * block - length}).view({n, block, -1});
  };
  q = blocks(q), k = blocks(k), v = blocks(v);
  real = torch::constant_pad_nd(real, {0, n * block - length}).view({n, block});
  const torch::Tensor logits =
      k.sum(1).matmul(weight).narrow(1, 0, n) + bias.narrow(0, 0, n);  // [n,n]
  const torch::Tensor p = sorting(logits, sort);
  std::vector<torch::Tensor> out;
  for (int64_t i = 0; i < n; ++i) {
    torch::Tensor sorted_k = torch::zeros_like(k[0]), sorted_v = sorted_k;
    torch::Tensor sorted_real = torch::zeros({block}, torch::kDouble);
    for (int64_t j = 0; j < n; ++j) {
      sorted_k = sorted_k + p[j][i] * k[j];
      sorted_v = sorted_v + p[j][i] * v[j];
      sorted_real = sorted_real + p[j][i] * real[j];
    }
    out.push_back(softmax_over(q[i], k[i], v[i], real[i]) +
                  softmax_over(q[i], sorted_k, sorted_v, sorted_real > 0.5 * p.select(1, i).sum()));
  }
  return torch::cat(out).narrow(0, 0, length);
}

TEST(Sinkhorn, EqualsTheFormulaWithItsGradients) {
  for (const std::string sort : {"softmax", "sinkhorn"}) {
    for (const auto& [n, block] : {std::pair{24, 4}, {23, 4}, {30, 7}, {5, 8}, {1, 1}, {11, 1}}) {
      const auto attention = make("sinkhorn[max_blocks=12,sort=" + sort +
                                  (sort == "sinkhorn" ? ",iterations=3,temperature=0.5" : "") +
                                  ",block=" + std::to_string(block) + "]");
      Inputs in = make_inputs({n, n / 2, 1, 0}, n);
      in.mask[0][n / 3] = n < 3;  // padding within the sequence
      const torch::Tensor weight = attention->named_parameters()["sort.weight"],
                          bias = attention->named_parameters()["sort.bias"],
                          seed = torch::randn_like(in.q);
      const std::vector<torch::Tensor> leaves = {in.q, in.k, in.v, weight, bias};
      std::vector<torch::Tensor> results[2];
      for (const torch::Tensor& leaf : {in.q, in.k, in.v}) leaf.requires_grad_();
      for (int i = 0; i < 2; ++i) {
        torch::Tensor out;
        if (i == 0) {
          out = attend(*attention, in);
        } else {
          std::vector<torch::Tensor> rows;
          for (int64_t b = 0; b < 4; ++b) {
            for (int64_t h = 0; h < 2; ++h)
              rows.push_back(formula(in.q[b][h], in.k[b][h], in.v[b][h], in.mask[b], weight, bias,
                                     block, sort));
          }
          out = torch::stack(rows).view_as(in.q) * in.mask.unsqueeze(1).unsqueeze(-1);
        }
        results[i] = torch::autograd::grad({(out * seed).sum()}, leaves);
        results[i].push_back(out);
      }
      for (size_t j = 0; j < results[0].size(); ++j) {
        EXPECT_LT(difference(results[0][j], results[1][j]), 1e-12)
            << sort << ", N = " << n << ", b = " << block << ", " << j;
      }
    }
  }
}

// One block that is longer than the inputs is as long as they are.
TEST(Sinkhorn, ABlockEndsWithTheInputs) {
  const auto longer = make("sinkhorn[block=9223372036854775807]"),
             exact = make("sinkhorn[block=64]");
  const Inputs in = make_inputs({29, 7, 0}, 29);
  EXPECT_EQ(difference(attend(*longer, in), attend(*exact, in)), 0);
  EXPECT_EQ(longer->flops(3, 29), exact->flops(3, 29));
  EXPECT_EQ(longer->analytic_bytes(3, 29, 4, false), exact->analytic_bytes(3, 29, 4, false));
  const Inputs none = make_inputs({}, 29);
  EXPECT_EQ(attend(*make("sinkhorn[block=8]"), none).sizes(), none.q.sizes());
}

// Σ_j P[j,i] = 1 after the last normalisation: values of one give one for either half.
TEST(Sinkhorn, NormalisedColumnsAreMeans) {
  Inputs in = make_inputs({32}, 32);
  in.v = torch::ones_like(in.v);
  const torch::Tensor two = 2 * in.v;
  EXPECT_LT(difference(attend(*make("sinkhorn[block=4,sort=sinkhorn]"), in), two), 1e-12);
  EXPECT_GT(difference(attend(*make("sinkhorn[block=4,sort=softmax]"), in), two), 1e-3);
}

// However little of the sorting's weight a place gets, what it gets is of tokens.
TEST(Sinkhorn, WithoutPaddingEveryBlockSeesItsSortedOne) {
  Inputs in = make_inputs({64}, 64);
  in.v = torch::ones_like(in.v);  // 1 of the own block, and Σ_j P[j,i] of the sorted one
  const torch::Tensor out = attend(*make("sinkhorn[block=4]"), in);
  EXPECT_GT(out.min().item<double>(), 1);
  EXPECT_LT(difference(out.mean(), torch::full({}, 2, torch::kDouble)), 1e-12);
}

// A sorting that is a permutation puts whole blocks in the place of others.
TEST(Sinkhorn, SortsBlocks) {
  Inputs in = make_inputs({16}, 16);
  const auto attention = make("sinkhorn[block=4]");
  {
    const torch::NoGradGuard no_grad;
    // The keys of block j sum to 4 along axis j; W sends axis j to column (j + 1) mod 4.
    in.k = torch::eye(4, torch::kDouble).repeat_interleave(4, 0).expand({1, 2, 16, 4}).clone();
    torch::Tensor weight = attention->named_parameters()["sort.weight"];
    weight.zero_().narrow(1, 0, 4).copy_(25 * torch::eye(4, torch::kDouble).roll(1, 1));
    attention->named_parameters()["sort.bias"].zero_();
  }
  const Inputs moved{in.q, in.k.roll(4, 2), in.v.roll(4, 2), in.mask};
  const auto local = [](const Inputs& all) {
    const auto cut = [](const torch::Tensor& t) { return t.view({1, 8, 4, 4}); };
    return at::scaled_dot_product_attention(cut(all.q), cut(all.k), cut(all.v)).view_as(all.q);
  };
  EXPECT_LT(difference(attend(*attention, in), local(in) + local(moved)), 1e-12);
}

TEST(Sinkhorn, OneBlockIsTwiceSoftmaxAndHasNothingToLearn) {
  const auto attention = make("sinkhorn[block=64]");  // max_length is 64
  EXPECT_EQ(attention->named_parameters().find("sort.weight"), nullptr);
  const Inputs in = make_inputs({50, 20, 1}, 50);
  const torch::Tensor twice = 2 * attend(*make("standard"), in);
  EXPECT_LT(difference(attend(*attention, in), twice), 1e-13);
  // The same where there could be more blocks.
  EXPECT_LT(difference(attend(*make("sinkhorn[block=64,max_blocks=3]"), in), twice), 1e-13);
}

TEST(Sinkhorn, StateIsBoundByTheLongestLength) {
  const auto attention = make("sinkhorn[block=10]");
  EXPECT_EQ(attention->named_parameters()["sort.weight"].sizes(), (std::vector<int64_t>{4, 7}));
  EXPECT_EQ(attention->named_parameters()["sort.bias"].sizes(), (std::vector<int64_t>{7}));
  EXPECT_NO_THROW(attend(*attention, make_inputs({70}, 70)));
  EXPECT_THROW(attend(*attention, make_inputs({71}, 71)), Unsupported);
}

TEST(Sinkhorn, CountsItsOperations) {
  // 10 blocks of 4; 3 samples, 2 heads of 4.
  EXPECT_EQ(
      make("sinkhorn[block=4]")->flops(3, 37),
      3 * 2 *
          (2 * 4 * 10 * 4 * 4 * 4 + 2 * 10 * 10 * 4 + 2 * 10 * 10 * 4 + 2 * 2 * 10 * 10 * 4 * 4));
  EXPECT_EQ(make("sinkhorn[block=64]")->flops(3, 37), 3 * 2 * 4 * 37 * 37 * 4);
}

// With the more costly sorting; tests/attention_variants/variants/growth_test.cpp measures the
// default.
TEST(Sinkhorn, MemoryGrowsWithPositions) {
  for (const bool training : {false, true}) {
    double peaks[2];
    for (const int64_t n : {4096, 8192}) {
      const auto attention =
          make("sinkhorn[sort=sinkhorn]", torch::kFloat,
               {.width = 64, .heads = 2, .head_dim = 32, .max_length = n, .seed = 0});
      Inputs in = make_inputs({n}, n, torch::kFloat, 2, 32);
      for (torch::Tensor* t : {&in.q, &in.k, &in.v}) t->set_requires_grad(training);
      const torch::Tensor gradient = torch::ones_like(in.q);
      peaks[n / 8192] = static_cast<double>(peak_bytes([&] {
        torch::AutoGradMode grad(training);
        torch::Tensor out = attend(*attention, in);
        if (training) out.backward(gradient);
      }));
    }
    EXPECT_LT(peaks[1] / peaks[0], 2.2) << (training ? "training" : "inference");
  }
}

// Softmaxes that are saturated give a place to two blocks alike: half of it is a token where the
// last block ends before it.
TEST(Sinkhorn, TiesAreTheSameInEveryType) {
  const torch::NoGradGuard no_grad;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    torch::manual_seed(seed);
    const auto attention =
        make_attention(parse_attention("sinkhorn[block=64]"),
                       {.width = 64, .heads = 2, .head_dim = 32, .max_length = 128, .seed = seed});
    const torch::Tensor x = torch::randn({1, 127, 64}) + torch::randn({64}),
                        mask = torch::ones({1, 127}, torch::kBool);
    const torch::Tensor single = attention->forward(x, mask);
    attention->to(torch::kDouble);
    const torch::Tensor exact = attention->forward(x.to(torch::kDouble), mask);
    EXPECT_LT((single - exact).abs().max().item<double>(), 1e-4 * exact.abs().max().item<double>())
        << seed;
  }
}

}  // namespace
}  // namespace lra
