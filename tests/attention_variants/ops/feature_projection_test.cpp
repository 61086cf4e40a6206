// Exponents of softmax features where products round to bfloat16.
#include <gtest/gtest.h>

#include <vector>

#include "attention_variants/ops/autocast.h"
#include "attention_variants/ops/cpu/kernels/gemm/gemm.h"
#include "attention_variants/ops/cpu/kernels/heads/linear_attention.h"
#include "attention_variants/ops/cpu/kernels/kernels.h"
#include "attention_variants/ops/linear_attention.h"
#include "tests/attention_variants/testing.h"

namespace lra::ops::cpu {
namespace {

struct FeatureCase {
  LinearHeadShape shape;
  torch::Tensor k, w;  // [N,d], [f,d]; k, and w where `rounded`, of bfloat16 numbers
};

FeatureCase feature_case(int64_t depth, int64_t width, bool rounded) {
  torch::manual_seed(3);
  FeatureCase of{.shape = {.map = FeatureMap::softmax,
                           .length = 150,
                           .depth = depth,
                           .width = width,
                           .rounded = rounded},
                 .k = (4 * torch::randn({150, depth})).to(torch::kBFloat16).to(torch::kFloat),
                 .w = torch::randn({width, depth})};
  if (rounded) of.w = of.w.to(torch::kBFloat16).to(torch::kFloat);
  of.shape.projection = of.w.const_data_ptr<float>();
  return of;
}

// The largest exponent as the kernels have it.
Largest largest_exponent(const FeatureCase& of) {
  const torch::Tensor mask = torch::ones({of.shape.length}, torch::kBool),
                      memory = torch::empty({bytes_of<LinearHeadLargestScratch>(of.shape)},
                                            torch::kByte);
  Arena arena(reinterpret_cast<std::byte*>(memory.data_ptr()), memory.numel());
  const ConstMatrix k{of.k.const_data_ptr<float>(), of.shape.depth};
  return feature_largest(of.shape, {.q = k, .k = k, .v = k, .mask = mask.const_data_ptr<bool>()},
                         arena);
}

// By the product of float32, or by that of bfloat16 where it is exact. Bounds: an exponent is a sum
// of `depth` products, each to 2^-24 of the largest.
TEST(FeatureProjection, ExponentsAreThoseOfFloat32WhateverProductsRoundTo) {
  for (const bool rounded : {false, true}) {
    for (const auto& [depth, width] : std::vector<std::pair<int64_t, int64_t>>{
             {32, 256}, {32, 266}, {24, 70}, {5, 3}, {64, 128}}) {
      const FeatureCase of = feature_case(depth, width, rounded);
      const torch::Tensor exact = of.k.to(torch::kDouble).matmul(of.w.to(torch::kDouble).t());
      const GemmPrecisionScope products(GemmPrecision::bfloat16);
      const Largest found = largest_exponent(of);
      const auto most = exact.max().item<double>();
      EXPECT_NEAR(found.value, most, 2e-6 * most) << rounded << ", " << depth << ", " << width;
      EXPECT_NEAR(exact[found.row][found.feature].item<double>(), most, 2e-6 * most);
    }
  }
}

// Whoever computes it, W under autocast is W rounded.
TEST(FeatureProjection, IsRoundedUnderAutocastByAllKernels) {
  torch::manual_seed(4);
  const auto numbers = [] { return torch::randn({2, 2, 70, 32}).to(torch::kBFloat16); };
  const torch::Tensor w = torch::randn({48, 32}),
                      rounded = w.to(torch::kBFloat16).to(torch::kFloat);
  LinearAttentionCall call{.q = numbers(),
                           .k = numbers(),
                           .v = numbers(),
                           .mask = torch::ones({2, 70}, torch::kBool),
                           .options = {.norm = 0.5}};
  const AutocastScope autocast(torch::kCPU, Dtype::bfloat16);
  for (const FeatureMap map : {FeatureMap::softmax, FeatureMap::relu}) {
    call.options.map = map;
    for (const Kernels kernels : {Kernels::fused, Kernels::reference}) {
      const auto out = [&](const torch::Tensor& table) {
        call.table = table;
        return linear_attention(kernels, call);
      };
      EXPECT_TRUE(out(w).equal(out(rounded)));
      EXPECT_FALSE(out(w).equal(out(rounded + 1)));
    }
  }
}

TEST(LinearAttention, PaddedRowsAreZeroWithAnOffsetToo) {
  torch::manual_seed(5);
  const torch::Tensor mask = torch::arange(20).lt(13).repeat({2, 1});
  LinearAttentionCall call{.q = torch::randn({2, 2, 20, 8}),
                           .k = torch::randn({2, 2, 20, 8}),
                           .v = torch::randn({2, 2, 20, 8}),
                           .mask = mask,
                           .options = {.offset = 0.01}};
  for (const FeatureMap map : {FeatureMap::elu, FeatureMap::cosine}) {
    call.options.map = map;
    if (map == FeatureMap::cosine) call.table = torch::randn({2, 20, 2});
    const torch::Tensor fused = linear_attention(Kernels::fused, call),
                        reference = linear_attention(Kernels::reference, call);
    EXPECT_EQ(reference.slice(2, 13).abs().max().item<float>(), 0);
    EXPECT_TRUE(torch::allclose(fused, reference, 1e-4, 1e-5));
  }
}

}  // namespace
}  // namespace lra::ops::cpu
