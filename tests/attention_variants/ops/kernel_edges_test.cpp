// What only rarely reaches the kernels: huge logits, empty batches, other heads, second
// derivatives.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "attention_variants/ops/dropout.h"
#include "attention_variants/ops/softmax_attention.h"
#include "tests/attention_variants/testing.h"

namespace lra {
namespace {

constexpr int64_t kLength = 40, kDepth = 8;

const AttentionContext kContext{
    .width = 16, .heads = 2, .head_dim = kDepth, .max_length = kLength, .seed = 1};

// q, k and v, or what is both of the first and v, of `scale` times normal numbers, v of 1.
std::vector<torch::Tensor> leaves_of(const Attention& attention, int64_t batch, double scale) {
  torch::manual_seed(5);
  std::vector<torch::Tensor> leaves;
  const bool shared = attention.projections() == Projections::shared_query_key;
  for (int i = shared ? 1 : 0; i < 3; ++i) {
    const torch::Tensor x = torch::randn({batch, 2, kLength, kDepth});
    leaves.push_back((i < 2 ? x * scale : x).requires_grad_());
  }
  return leaves;
}

torch::Tensor attend_leaves(Attention& attention, const std::vector<torch::Tensor>& leaves) {
  const torch::Tensor &k = leaves[leaves.size() - 2], &v = leaves.back();
  return attention.attend(leaves[0], k, v, torch::ones({v.size(0), kLength}, torch::kBool));
}

class KernelEdges : public testing::TestWithParam<const char*> {
 protected:
  std::shared_ptr<Attention> attention_ = make(GetParam(), torch::kFloat, kContext);
};

TEST_P(KernelEdges, EmptyBatches) {
  for (const auto type : {torch::kFloat, torch::kDouble}) {  // own kernels, LibTorch's operators
    auto leaves = leaves_of(*attention_, 0, 1);
    for (torch::Tensor& leaf : leaves) leaf = leaf.detach().to(type).requires_grad_();
    const torch::Tensor out = attend_leaves(*make(GetParam(), type, kContext), leaves);
    EXPECT_EQ(out.sizes(), leaves.back().sizes());
    const auto gradients = torch::autograd::grad({out}, leaves, {torch::ones_like(out)});
    for (size_t i = 0; i < leaves.size(); ++i) EXPECT_EQ(gradients[i].sizes(), leaves[i].sizes());
  }
}

TEST_P(KernelEdges, SecondDerivativesAreRefused) {
  const auto leaves = leaves_of(*attention_, 2, 1);
  const torch::Tensor loss = attend_leaves(*attention_, leaves).square().sum();
  EXPECT_THROW(torch::autograd::grad({loss}, leaves, {}, /*retain_graph=*/true,
                                     /*create_graph=*/true),
               Error);
}

INSTANTIATE_TEST_SUITE_P(Every, KernelEdges,
                         testing::Values("standard", "nystrom", "nystrom[num_landmarks=8]",
                                         "linformer[projected_length=8]", "linear", "performer",
                                         "cosformer", "reformer[chunk_length=8]", "local[block=8]",
                                         "longformer[window=8]", "bigbird[block=4]", "sparse",
                                         "performer[key_max=batch]",
                                         "nystrom[num_landmarks=8,init=global]"));

class HugeLogits : public KernelEdges {};

// Rounding of a sum must not reach the exponentials: results are means of values still.
TEST_P(HugeLogits, GiveMeansOfTheValues) {
  for (const double scale : {1e3, 3e4, 1e5, 1e8, 1e15}) {
    const auto leaves = leaves_of(*attention_, 2, scale);
    const torch::Tensor out = attend_leaves(*attention_, leaves);
    EXPECT_LE(out.abs().max().item<float>(), leaves.back().abs().max().item<float>() * 1.001F)
        << scale;  // not true of NaN either
    for (const torch::Tensor& gradient :
         torch::autograd::grad({out}, leaves, {torch::ones_like(out)}))
      EXPECT_TRUE(gradient.isfinite().all().item<bool>()) << scale;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Every, HugeLogits,
    testing::Values("standard", "nystrom[conv_kernel_size=0]",
                    "nystrom[num_landmarks=8,conv_kernel_size=0]", "linformer[projected_length=8]",
                    "reformer[chunk_length=8]", "local[block=8]", "longformer[window=8]",
                    "longformer[window=8,global_tokens=2]", "bigbird[block=4]", "sparse"));

class HugeEqualLogits : public KernelEdges {};

// All keys of a head alike: each query weighs what it sees alike, however large the logits are, and
// the rounding of a score cannot explain an error.
TEST_P(HugeEqualLogits, WeighKeysAlikeInTheBackwardPass) {
  for (const double scale : {32.0, 256.0, 2048.0}) {  // logits of 1e4 to 1e8
    auto leaves = leaves_of(*attention_, 2, 4);
    // Whole numbers times a power of two: sums of their products are exact in any order.
    for (size_t i = 0; i < 2; ++i) leaves[i] = leaves[i].detach().round().mul(scale);
    leaves[0].requires_grad_();
    leaves[1] = leaves[1].narrow(2, 0, 1).expand_as(leaves[1]).contiguous();
    leaves[1].requires_grad_();
    const torch::Tensor gradient = torch::randn_like(leaves[2]);
    const auto values_gradient = [&](Attention& attention, const std::vector<torch::Tensor>& from) {
      const torch::Tensor out = attend_leaves(attention, from);
      return torch::autograd::grad({out}, {from[2]}, {gradient.to(out.scalar_type())})[0];
    };
    std::vector<torch::Tensor> exact_leaves;
    for (const torch::Tensor& leaf : leaves)
      exact_leaves.push_back(leaf.detach().to(torch::kDouble).requires_grad_());
    const torch::Tensor given = values_gradient(*attention_, leaves),
                        exact = values_gradient(*make(GetParam(), torch::kDouble, kContext),
                                                exact_leaves);
    EXPECT_LT((given - exact).abs().max().item<double>(), 1e-5 * exact.abs().max().item<double>())
        << scale;
  }
}

INSTANTIATE_TEST_SUITE_P(Every, HugeEqualLogits,
                         testing::Values("standard", "local[block=8]", "longformer[window=8]",
                                         "longformer[window=8,global_tokens=2]", "bigbird[block=4]",
                                         "sparse"));

// Of 64 queries powers of two are computed many at a time, by an instruction set's own means; of
// one alone number by number. Each score is one product.
TEST(SoftmaxPowers, AreTheSameOfManyQueriesAndOfOne) {
  std::vector<float> scores = {0,       -0.3F,  1e-30F, -87.3F, -87.336F, -87.34F, -88,   -100,
                               -103.5F, -1e30F, 60,     88,     1e30F,    -0.5F,   -0.25F};
  scores.push_back(std::nanf(""));
  for (int i = static_cast<int>(scores.size()); i < 64; ++i)
    scores.push_back(static_cast<float>(i) * -2.7F);
  const torch::Tensor q = torch::tensor(scores).view({1, 1, 64, 1}),
                      k = torch::tensor({0.0F, 1.0F}).view({1, 1, 2, 1}),
                      v = torch::tensor({0.0F, 1.0F}).view({1, 1, 2, 1}),
                      mask = torch::ones({1, 2}, torch::kBool),
                      many = ops::softmax_attention(Kernels::fused, {q, k, v, mask});
  for (int64_t i = 0; i < 64; ++i) {
    const torch::Tensor one =
        ops::softmax_attention(Kernels::fused, {q.narrow(2, i, 1), k, v, mask});
    EXPECT_EQ(std::bit_cast<uint32_t>(many[0][0][i].item<float>()),
              std::bit_cast<uint32_t>(one.item<float>()))
        << scores[static_cast<size_t>(i)];
  }
}

TEST(NystromKernel, RefusesOtherHeadsThanItsConvolutionHas) {
  const auto attention = make("nystrom[num_landmarks=8]", torch::kFloat, kContext);
  const torch::Tensor x = torch::randn({2, 6, kLength, kDepth});
  EXPECT_THROW(attention->attend(x, x, x, torch::ones({2, kLength}, torch::kBool)), Error);
}

TEST(Dropout, RefusesSecondDerivatives) {
  const torch::Tensor x = torch::randn({4, 64}).requires_grad_();
  const torch::Tensor loss = ops::philox_dropout(x, 0.1, /*training=*/true).square().sum();
  EXPECT_THROW(torch::autograd::grad({loss}, {x}, {}, true, true), Error);
}

}  // namespace
}  // namespace lra
