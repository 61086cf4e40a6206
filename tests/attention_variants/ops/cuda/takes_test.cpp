// Which calls the CUDA kernels take, and what becomes of those that they do not: emulated.
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "attention_variants/ops/autocast.h"
#include "attention_variants/ops/cuda/device_table.h"
#include "attention_variants/ops/cuda/operators.h"
#include "attention_variants/ops/embedding.h"
#include "attention_variants/ops/layer_norm.h"
#include "attention_variants/ops/linear.h"
#include "attention_variants/ops/linear_attention.h"
#include "attention_variants/ops/softmax_attention.h"
#include "tests/attention_variants/parity.h"
#include "tests/attention_variants/testing.h"
#include "tests/cuda_emulator/emulator.h"

namespace lra {
namespace {

constexpr auto kFew = ops::cuda::kLeastSharedBytes;

class SmallSharedMemory : public testing::TestWithParam<ParityCase> {};

// GPUs of capability 8.6, 8.9 and 12.x: what wants more runs by LibTorch's operators.
TEST_P(SmallSharedMemory, IsEnough) {
  const ParityCase& c = GetParam();
  ParityInputs given(c);
  const auto exact = given.results(c, Kernels::reference, torch::kDouble),
             plain = given.results(c, Kernels::reference, torch::kFloat);
  const emulator::WithSharedBytes limit(kFew);
  const ops::cuda::WithHostTable with(lra_cuda_kernels(), torch::kCPU, kFew);
  expect_as_exact(given.results(c, Kernels::fused, torch::kFloat), plain, exact, 4e-6);
}

INSTANTIATE_TEST_SUITE_P(
    Every, SmallSharedMemory,
    testing::Values(ParityCase{"nystrom[num_landmarks=64]", 1, 1, 130, 8, ParityPadding::end},
                    ParityCase{"nystrom[num_landmarks=100]", 1, 1, 130, 8, ParityPadding::none},
                    ParityCase{"nystrom[num_landmarks=32]", 1, 1, 70, 64, ParityPadding::none},
                    ParityCase{"nystrom[num_landmarks=8,conv_kernel_size=472]", 1, 1, 40, 8,
                               ParityPadding::end},
                    ParityCase{"nystrom[num_landmarks=8,conv_kernel_size=473]", 1, 1, 40, 8,
                               ParityPadding::end},
                    ParityCase{"linformer[projected_length=9]", 1, 1, 40, 128, ParityPadding::end},
                    ParityCase{"linformer[projected_length=9]", 1, 1, 40, 64, ParityPadding::end},
                    ParityCase{"linear", 1, 1, 40, 128, ParityPadding::end},
                    ParityCase{"linear", 1, 1, 40, 64, ParityPadding::end},
                    ParityCase{"performer[num_features=40]", 1, 1, 40, 128, ParityPadding::none},
                    ParityCase{"performer[num_features=40]", 1, 1, 40, 64, ParityPadding::none},
                    ParityCase{"local[block=16]", 1, 1, 40, 128, ParityPadding::end},
                    ParityCase{"local[block=16]", 1, 1, 40, 64, ParityPadding::end},
                    ParityCase{"reformer[chunk_length=16]", 1, 1, 40, 128, ParityPadding::none},
                    ParityCase{"reformer[chunk_length=16]", 1, 1, 40, 64, ParityPadding::none}));

TEST(SmallSharedMemory, IsEnoughForLargeVocabularies) {
  const emulator::WithSharedBytes limit(kFew);
  const ops::cuda::WithHostTable with(lra_cuda_kernels(), torch::kCPU, kFew);
  for (const int64_t vocabulary : {700, 1000}) {
    const ops::EmbeddingTables tables{.tokens = torch::randn({vocabulary, 4}).requires_grad_(),
                                      .positions = torch::randn({6, 4}).requires_grad_(),
                                      .first = {}};
    const torch::Tensor ids = torch::arange(12).view({2, 6});
    const int64_t before = emulator::launches();
    const torch::Tensor out = ops::embed(Kernels::fused, ids, tables, 0, true, {});
    out.sum().backward();
    EXPECT_EQ(emulator::launches() > before, vocabulary == 700);
    EXPECT_EQ(tables.tokens.grad().sum().item<float>(), 12 * 4);
  }
}

// On a GPU autocast leaves q alone where linformer's table has made k and v narrower.
TEST(CudaTakes, SoftmaxAttentionOfSeveralTypes) {
  const ops::cuda::WithHostTable with(lra_cuda_kernels());
  torch::manual_seed(2);
  const torch::Tensor q = torch::randn({2, 1, 40, 8}), k = torch::randn({2, 1, 5, 8}),
                      v = torch::randn({2, 1, 5, 8});
  const torch::Tensor narrow_k = k.to(torch::kBFloat16), narrow_v = v.to(torch::kBFloat16);
  const int64_t before = emulator::launches();
  const torch::Tensor found =
      ops::softmax_attention(Kernels::fused, {q, narrow_k, narrow_v, {}, {}});
  EXPECT_GT(emulator::launches(), before);
  const torch::Tensor expected = at::scaled_dot_product_attention(
      q.to(torch::kDouble), narrow_k.to(torch::kDouble), narrow_v.to(torch::kDouble));
  EXPECT_LT(error(found, expected), 1e-6);
}

// Blocks of a grid have 65,535 rows at most, of 64 features each.
TEST(CudaTakes, NoMoreFeaturesThanAGridHas) {
  const ops::cuda::WithHostTable with(lra_cuda_kernels());
  const auto takes = [](int64_t width) {
    return ops::cuda::takes(
        ops::Place{}, ops::LinearAttentionShape{
                          .batch = 1, .heads = 1, .length = 8, .head_dim = 32, .width = width});
  };
  EXPECT_TRUE(takes(65535 * 64));
  EXPECT_FALSE(takes(65535 * 64 + 1));
}

// What is not a number shows: a run that diverges must not look like one that learns.
TEST(CudaTakes, NotANumberStaysOne) {
  const ops::cuda::WithHostTable with(lra_cuda_kernels());
  const AttentionContext context{.width = 16, .heads = 2, .head_dim = 8, .max_length = 40};
  for (const char* spec : {"linear", "cosformer", "performer[kernel=relu,num_features=9]",
                           "performer[num_features=9]"}) {
    const auto attention = make_attention(parse_attention(spec), context);
    const torch::Tensor x = torch::randn({1, 2, 40, 8}), mask = torch::ones({1, 40}, torch::kBool);
    torch::Tensor bad = x.clone();
    bad[0][1][7].fill_(std::numeric_limits<float>::quiet_NaN());
    const torch::NoGradGuard no_grad;
    const int64_t before = emulator::launches();
    EXPECT_TRUE(attention->attend(bad, x, x, mask)[0][1][7].isnan().all().item<bool>()) << spec;
    EXPECT_TRUE(attention->attend(x, bad, x, mask)[0][1].isnan().all().item<bool>()) << spec;
    EXPECT_GT(emulator::launches(), before) << spec;
  }
}

TEST(CudaTakes, NothingUnderAutocastToFloat16) {
  const ops::cuda::WithHostTable with(lra_cuda_kernels());
  const torch::Tensor x = torch::randn({2, 3, 8});
  const ops::LinearWeights layer{torch::randn({4, 8}), torch::randn({4})};
  at::autocast::set_autocast_dtype(torch::kCPU, torch::kHalf);
  at::autocast::set_autocast_enabled(torch::kCPU, true);
  const int64_t before = emulator::launches();
  const torch::Tensor out = ops::linear(Kernels::fused, x, nullptr, {layer}).y[0];
  at::autocast::set_autocast_enabled(torch::kCPU, false);
  at::autocast::set_autocast_dtype(torch::kCPU, torch::kBFloat16);
  EXPECT_EQ(emulator::launches(), before);
  EXPECT_LT(error(out, at::linear(x, layer.weight, layer.bias).to(torch::kDouble)), 1e-2);
}

TEST(CudaTakes, EmptyBatches) {
  const ops::cuda::WithHostTable with(lra_cuda_kernels());
  const torch::Tensor x = torch::zeros({0, 5, 8}).requires_grad_(),
                      mask = torch::ones({0, 5}, torch::kBool),
                      weight = torch::ones({8}).requires_grad_(),
                      bias = torch::zeros({8}).requires_grad_();
  ops::layer_norm_mean(Kernels::fused, x, {weight, bias, 1e-5}, mask, 0).sum().backward();
  EXPECT_EQ(weight.grad().abs().sum().item<float>(), 0);
  const torch::Tensor matrix = torch::ones({4, 8}).requires_grad_(),
                      offset = torch::ones({4}).requires_grad_();
  ops::linear(Kernels::fused, x, nullptr, {{matrix, offset}}).y[0].sum().backward();
  EXPECT_EQ(offset.grad().sizes(), (std::vector<int64_t>{4}));
}

}  // namespace
}  // namespace lra
