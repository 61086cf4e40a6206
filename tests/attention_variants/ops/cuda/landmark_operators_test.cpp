// Nyström attention and softmax attention with few keys or queries by the emulated CUDA kernels,
// against LibTorch's operators in float64: results and gradients, with anything in the padding.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "attention_variants/ops/cuda/operators.h"
#include "attention_variants/ops/reference/operators.h"
#include "tests/attention_variants/ops/cuda/emulated.h"
#include "tests/attention_variants/testing.h"
#include "tests/cuda_emulator/testing.h"

namespace lra {
namespace {

using Tensors = std::vector<torch::Tensor>;

// The result and the gradients of what is given and has elements, in a type.
template <class Run>
Tensors evaluate_operator(Tensors in, torch::ScalarType type, const torch::Tensor& gradient,
                          const Run& run) {
  for (torch::Tensor& x : in) x = x.to(type).detach().requires_grad_();
  const torch::Tensor out = run(in);
  std::erase_if(in, [](const torch::Tensor& x) { return x.numel() == 0; });
  Tensors all = torch::autograd::grad({out}, in, {gradient.to(type)});
  all.insert(all.begin(), out.detach());
  return all;
}

// [B,H,N,d], laid out as projections leave it.
torch::Tensor draw_heads(int64_t batch, int64_t heads, int64_t length, int64_t depth) {
  return torch::randn({batch, length, heads, depth}).transpose(1, 2);
}

torch::Tensor without_tokens(const torch::Tensor& x, const torch::Tensor& mask, float padding) {
  return x.masked_fill(mask.logical_not().unsqueeze(1).unsqueeze(-1), padding);
}

// No further off than LibTorch's operators by more than their luck, or four units of bfloat16.
void expect_as_exact_in_bfloat16(const Tensors& fused, const Tensors& plain, const Tensors& exact) {
  for (size_t i = 0; i < exact.size(); ++i) {
    EXPECT_EQ(fused[i].scalar_type(), torch::kBFloat16) << i;
    EXPECT_LT(error(fused[i], exact[i]), std::max(2 * error(plain[i], exact[i]), 4 * 0x1p-8)) << i;
  }
}

struct LandmarkCase {
  int64_t batch, heads, length, depth, taps;
  ops::LandmarkOptions options;
};
void PrintTo(const LandmarkCase& c, std::ostream* to) {
  *to << fmt::format("{}x{}x{}x{}, {} landmarks, {} taps", c.batch, c.heads, c.length, c.depth,
                     c.options.landmarks, c.taps);
}

class LandmarkOperator : public testing::TestWithParam<LandmarkCase> {
 protected:
  LandmarkOperator() {
    torch::manual_seed(1);
    mask_ = torch::rand({c_.batch, c_.length}).gt(0.3);
    mask_[0].slice(0, 0, c_.length / 2).fill_(true);
    if (c_.batch > 2) mask_[1].fill_(false);
    for (int i = 0; i < 3; ++i) in_.push_back(draw_heads(c_.batch, c_.heads, c_.length, c_.depth));
    in_.push_back(torch::randn({c_.heads, c_.taps}));
    gradient_ = draw_heads(c_.batch, c_.heads, c_.length, c_.depth);
  }

  Tensors plain(torch::ScalarType type) const {
    return evaluate_operator(in_, type, gradient_,
                             [&](const Tensors& in) { return ops::reference::run(call(in)); });
  }
  // With NaN where nothing may be read.
  Tensors fused(torch::ScalarType type) const {
    const OnDevice with(Device::emulated_gpu);
    Tensors in = in_;
    for (size_t i = 0; i < 3 && c_.options.padding != ops::LandmarkPadding::ignored; ++i)
      in[i] = without_tokens(in[i], mask_, std::numeric_limits<float>::quiet_NaN());
    return evaluate_operator(in, type, gradient_,
                             [&](const Tensors& x) { return ops::cuda::run(call(x)); });
  }
  ops::LandmarkCall call(const Tensors& in) const {
    return {in[0], in[1], in[2], mask_, in[3], c_.options};
  }

  const LandmarkCase c_ = GetParam();
  torch::Tensor mask_, gradient_;
  Tensors in_;
};

TEST_P(LandmarkOperator, IsAsExactAsLibTorch) {
  expect_as_exact(fused(torch::kFloat), plain(torch::kFloat), plain(torch::kDouble), 4e-6);
}

TEST_P(LandmarkOperator, IsAsExactInBfloat16) {
  for (torch::Tensor& x : in_) x = x.to(torch::kBFloat16);
  expect_as_exact_in_bfloat16(fused(torch::kBFloat16), plain(torch::kBFloat16),
                              plain(torch::kDouble));
}

TEST_P(LandmarkOperator, GivesTheSameWithoutGradients) {
  const OnDevice with(Device::emulated_gpu);
  const torch::Tensor differentiated =
      evaluate_operator(in_, torch::kFloat, gradient_,
                        [&](const Tensors& in) { return ops::cuda::run(call(in)); })[0];
  const torch::NoGradGuard no_grad;
  EXPECT_TRUE(torch::equal(ops::cuda::run(call(in_)), differentiated));
}

// As the joined projections leave q, k and v, and their backward pass reads the gradients.
TEST_P(LandmarkOperator, LeavesGradientsSideBySideWhereInputsAre) {
  const OnDevice with(Device::emulated_gpu);
  const auto run = [&](const Tensors& in) { return ops::cuda::run(call(in)); };
  const Tensors apart = evaluate_operator(in_, torch::kFloat, gradient_, run);
  const torch::Tensor rows = torch::empty({c_.batch, c_.length, 3, c_.heads, c_.depth});
  Tensors parts;
  for (int64_t i = 0; i < 3; ++i) {
    parts.push_back(rows.select(2, i).transpose(1, 2));
    parts.back().copy_(in_[static_cast<size_t>(i)]);
  }
  parts.push_back(in_[3]);
  const Tensors joined = evaluate_operator(parts, torch::kFloat, gradient_, run);
  for (size_t i = 0; i < apart.size(); ++i) EXPECT_TRUE(torch::equal(apart[i], joined[i])) << i;
  for (size_t i = 1; i <= 3; ++i) {
    EXPECT_EQ(joined[i].strides(), parts[i - 1].strides());
    EXPECT_EQ(joined[i].storage_offset(), parts[i - 1].storage_offset());
    EXPECT_TRUE(joined[i].is_alias_of(joined[1]));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Options, LandmarkOperator,
    testing::Values(
        LandmarkCase{2, 2, 40, 8, 5, {.landmarks = 6}},
        LandmarkCase{3,
                     1,
                     30,
                     5,
                     4,
                     {.landmarks = 7,
                      .kind = ops::LandmarkKind::adaptive_pool,
                      .start = ops::InverseStart::global}},
        LandmarkCase{2, 1, 33, 16, 0, {.landmarks = 8, .padding = ops::LandmarkPadding::zeroed}},
        LandmarkCase{2,
                     1,
                     20,
                     8,
                     3,
                     {.landmarks = 5, .iterations = 2, .padding = ops::LandmarkPadding::ignored}},
        // In ranges.
        LandmarkCase{1, 1, 300, 8, 35, {.landmarks = 9}}));

TEST(LandmarkOperatorTakes, WhatKernelsCompute) {
  const OnDevice with(Device::emulated_gpu);
  const ops::Place place{};
  const auto takes = [&](ops::LandmarkOptions options, int64_t head_dim = 32, int64_t taps = 35) {
    return ops::cuda::takes(place,
                            ops::LandmarkShape{2, 2, 500, head_dim, taps, 4, std::move(options)});
  };
  EXPECT_TRUE(takes({.landmarks = 128}));
  EXPECT_FALSE(takes({.landmarks = 129}));
  EXPECT_FALSE(takes({.exact_inverse = true}));
  EXPECT_FALSE(takes({.kind = ops::LandmarkKind::strided}));
  EXPECT_FALSE(takes({.kind = ops::LandmarkKind::random}));
  EXPECT_FALSE(takes({}, 129));
  EXPECT_FALSE(takes({}, 32, 513));
  EXPECT_FALSE(ops::cuda::takes({.type = torch::kDouble}, ops::LandmarkShape{2, 2, 500, 32}));
}

struct FewCase {
  int64_t batch, heads, queries, keys, depth;
  bool query_mask, key_mask;
};
void PrintTo(const FewCase& c, std::ostream* to) {
  *to << fmt::format("{} queries, {} keys, d {}", c.queries, c.keys, c.depth);
}

class FewOperator : public testing::TestWithParam<FewCase> {
 protected:
  FewOperator() {
    torch::manual_seed(2);
    in_ = {draw_heads(c_.batch, c_.heads, c_.queries, c_.depth),
           draw_heads(c_.batch, c_.heads, c_.keys, c_.depth),
           draw_heads(c_.batch, c_.heads, c_.keys, c_.depth)};
    gradient_ = torch::randn({c_.batch, c_.heads, c_.queries, c_.depth});
    if (c_.query_mask) asking_ = torch::rand({c_.batch, c_.queries}).gt(0.3);
    if (c_.key_mask) seen_ = torch::rand({c_.batch, c_.keys}).gt(0.3);
  }
  Tensors plain(torch::ScalarType type) const {
    return evaluate_operator(in_, type, gradient_,
                             [&](const Tensors& in) { return ops::reference::run(call(in)); });
  }
  Tensors fused(torch::ScalarType type) const {
    const OnDevice with(Device::emulated_gpu);
    return evaluate_operator(in_, type, gradient_,
                             [&](const Tensors& in) { return ops::cuda::run(call(in)); });
  }
  ops::SoftmaxAttentionCall call(const Tensors& in) const {
    return {in[0], in[1], in[2], seen_, asking_, {}};
  }

  const FewCase c_ = GetParam();
  torch::Tensor asking_, seen_, gradient_;
  Tensors in_;
};

TEST_P(FewOperator, IsAsExactAsLibTorch) {
  expect_as_exact(fused(torch::kFloat), plain(torch::kFloat), plain(torch::kDouble), 4e-6);
}

TEST_P(FewOperator, IsAsExactInBfloat16) {
  for (torch::Tensor& x : in_) x = x.to(torch::kBFloat16);
  expect_as_exact_in_bfloat16(fused(torch::kBFloat16), plain(torch::kBFloat16),
                              plain(torch::kDouble));
}

INSTANTIATE_TEST_SUITE_P(Shapes, FewOperator,
                         testing::Values(FewCase{2, 2, 70, 5, 8, true, false},
                                         FewCase{2, 1, 3, 280, 16, false, true},
                                         FewCase{1, 2, 20, 20, 40, true, true}));

TEST(FewOperatorTakes, FewKeysOrQueriesWithoutDropout) {
  const OnDevice with(Device::emulated_gpu);
  const auto takes = [](int64_t queries, int64_t keys,
                        const ops::SoftmaxAttentionOptions& options) {
    return ops::cuda::takes({},
                            ops::SoftmaxAttentionShape{4, queries, keys, 32, 32, 4, true, options});
  };
  EXPECT_TRUE(takes(2000, 256, {}));
  EXPECT_TRUE(takes(128, 2000, {}));
  EXPECT_FALSE(takes(129, 257, {}));
  EXPECT_TRUE(takes(2000, 64, {.dropout = 0.1}));
  EXPECT_FALSE(takes(2000, 64, {.dropout = 0.1, .training = true}));
}

}  // namespace
}  // namespace lra
