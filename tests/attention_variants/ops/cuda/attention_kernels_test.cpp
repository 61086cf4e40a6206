// The CUDA kernels of attentions, emulated behind their operators, against LibTorch's operators in
// float64: results and gradients, in float32 and bfloat16, with padding that holds anything, in any
// order of threads and blocks.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "attention_variants/ops/cuda/device_table.h"
#include "tests/attention_variants/parity.h"
#include "tests/attention_variants/testing.h"
#include "tests/cuda_emulator/testing.h"

namespace lra {
namespace {

using Padding = ParityPadding;

class CudaAttention : public testing::TestWithParam<ParityCase> {
 protected:
  // By the emulated kernels, which do run.
  static std::vector<torch::Tensor> emulated(const ParityCase& c, ParityInputs& given,
                                             torch::ScalarType type) {
    const ops::cuda::WithHostTable with(lra_cuda_kernels());
    const int64_t before = emulator::launches();
    const auto results = given.results(c, Kernels::fused, type);
    EXPECT_GE(emulator::launches(), before + 3);
    return results;
  }

  static void expect_exact(const ParityCase& c) {
    ParityInputs given(c);
    const auto fused = emulated(c, given, torch::kFloat),
               plain = given.results(c, Kernels::reference, torch::kFloat),
               exact = given.results(c, Kernels::reference, torch::kDouble);
    expect_as_exact(fused, plain, exact, 4e-6);
  }

  // No further off than LibTorch's operators, or by four units of bfloat16 of numbers of size 1.
  static void expect_exact_in_bfloat16(const ParityCase& c) {
    ParityInputs given(c);
    for (torch::Tensor& x : given.inputs) x = x.to(torch::kBFloat16);
    const auto fused = emulated(c, given, torch::kBFloat16),
               plain = given.results(c, Kernels::reference, torch::kBFloat16),
               exact = given.results(c, Kernels::reference, torch::kDouble);
    for (size_t i = 0; i < exact.size(); ++i) {
      EXPECT_EQ(fused[i].scalar_type(), torch::kBFloat16) << i;
      expect_near_in_bfloat16(fused[i], plain[i], exact[i], i);
    }
  }
};

class SlowCudaAttention : public CudaAttention {};

TEST_P(CudaAttention, IsAsExactAsLibTorch) { expect_exact(GetParam()); }
TEST_P(CudaAttention, IsAsExactInBfloat16) { expect_exact_in_bfloat16(GetParam()); }
TEST_P(SlowCudaAttention, IsAsExactAsLibTorch) { expect_exact(GetParam()); }
TEST_P(SlowCudaAttention, IsAsExactInBfloat16) { expect_exact_in_bfloat16(GetParam()); }

// Every attention, at all widths of kernels and over several tiles.
std::vector<ParityCase> slow_cases() {
  std::vector<ParityCase> cases;
  for (const char* attention :
       {"linear", "cosformer", "performer[num_features=130]", "performer[kernel=relu]",
        "local[block=100]", "longformer[window=32,global_tokens=5]",
        "bigbird[block=16,random_blocks=2]", "sparse[block=64,summary=8]",
        "sparse[block=64,summary=8,causal=true]",
        "reformer[chunk_length=32,num_hashes=2,chunks_after=1]", "reformer[chunk_length=80]"}) {
    for (const int64_t head_dim : {16, 33, 64, 128}) {
      cases.push_back(
          {attention, 2, 2, 200, head_dim, head_dim == 64 ? Padding::end : Padding::scattered});
    }
  }
  // Where a single position does not make it softmax attention.
  for (const char* attention : {"linear", "cosformer", "performer", "local", "bigbird", "reformer"})
    cases.push_back({attention, 2, 1, 1, 16, Padding::none});
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Every, SlowCudaAttention, testing::ValuesIn(slow_cases()));

INSTANTIATE_TEST_SUITE_P(
    Few, CudaAttention,
    testing::Values(
        ParityCase{"nystrom[num_landmarks=6,conv_kernel_size=5]", 2, 2, 40, 8, Padding::end},
        ParityCase{"nystrom[num_landmarks=7,conv_kernel_size=0]", 3, 1, 30, 16, Padding::scattered},
        ParityCase{"nystrom", 1, 2, 30, 8, Padding::none},  // no more tokens than landmarks
        ParityCase{"linformer[projected_length=5]", 2, 1, 70, 16, Padding::end},
        ParityCase{"linformer[projected_length=20]", 1, 2, 33, 5, Padding::scattered}));

INSTANTIATE_TEST_SUITE_P(
    Linear, CudaAttention,
    testing::Values(ParityCase{"linear", 2, 2, 70, 16, Padding::end},
                    ParityCase{"linear[normalise=false]", 1, 1, 65, 5, Padding::scattered},
                    ParityCase{"cosformer", 2, 1, 40, 5, Padding::scattered},
                    ParityCase{"performer[num_features=70]", 2, 1, 40, 8, Padding::end},
                    ParityCase{"performer[num_features=7,key_max=batch,epsilon=1e-2,guard=1e-3]", 2,
                               1, 33, 5, Padding::scattered},
                    ParityCase{"performer[num_features=19,prescale=true,max_gradient=detached]", 2,
                               1, 30, 8, Padding::end},
                    ParityCase{"performer[num_features=19,kernel=relu]", 2, 1, 30, 16,
                               Padding::scattered},
                    ParityCase{"linear", 1, 1, 1, 32, Padding::none}));

INSTANTIATE_TEST_SUITE_P(
    Patterns, CudaAttention,
    testing::Values(
        ParityCase{"local[block=70]", 2, 1, 75, 16, Padding::end},
        ParityCase{"local[block=7]", 1, 2, 20, 5, Padding::scattered},
        ParityCase{"longformer[window=6]", 1, 1, 40, 8, Padding::scattered},
        ParityCase{"longformer[window=8,global_tokens=5]", 2, 1, 70, 8, Padding::scattered},
        ParityCase{"bigbird[block=8,random_blocks=2]", 2, 2, 60, 8, Padding::end},
        ParityCase{"sparse[block=16,summary=15,causal=true]", 1, 2, 50, 8, Padding::none},
        ParityCase{"sparse[block=32,summary=8]", 2, 1, 70, 40, Padding::scattered}));

INSTANTIATE_TEST_SUITE_P(
    Reformer, CudaAttention,
    testing::Values(ParityCase{"reformer[chunk_length=16]", 2, 1, 60, 32, Padding::end},
                    ParityCase{"reformer[chunk_length=8,num_hashes=3]", 2, 1, 41, 5,
                               Padding::scattered},
                    // Fewer chunks than a chunk sees: some are seen more than once.
                    ParityCase{"reformer[chunk_length=16,num_hashes=1,chunks_before=2]", 1, 2, 30,
                               8, Padding::none},
                    ParityCase{"reformer[chunk_length=70,key_scale=unit,chunks_after=1]", 1, 1, 90,
                               8, Padding::none},
                    ParityCase{"reformer", 2, 1, 20, 8, Padding::scattered}));

class EveryCudaAttention : public testing::TestWithParam<const char*> {
 protected:
  EveryCudaAttention() {
    torch::manual_seed(2);
    mask_[1].slice(0, 20).fill_(false);
    for (int i = 0; i < 3; ++i) inputs_.push_back(torch::randn({2, 1, 36, 8}));
    gradient_ = torch::randn({2, 1, 36, 8});
  }
  std::vector<torch::Tensor> results() const {
    const ops::cuda::WithHostTable with(lra_cuda_kernels());
    return evaluate(parse_attention(GetParam()),
                    {.width = 8, .heads = 1, .head_dim = 8, .max_length = 36}, torch::kFloat,
                    inputs_, mask_, gradient_);
  }

  torch::Tensor mask_ = torch::rand({2, 36}).gt(0.3);
  std::vector<torch::Tensor> inputs_;
  torch::Tensor gradient_;
};

TEST_P(EveryCudaAttention, SeesNothingOfPadding) {
  const auto clean = results();
  const torch::Tensor padding = mask_.logical_not().unsqueeze(1).unsqueeze(-1);
  for (torch::Tensor& x : inputs_)
    x = x.masked_fill(padding, std::numeric_limits<float>::quiet_NaN());
  const auto dirty = results();
  for (size_t i = 0; i < clean.size(); ++i) EXPECT_TRUE(torch::equal(clean[i], dirty[i])) << i;
}

TEST_P(EveryCudaAttention, IsTheSameInEveryOrderOfThreadsAndBlocks) {
  EXPECT_TRUE(emulator::same_in_every_order([&] {
    std::vector<float> all;
    for (const torch::Tensor& x : results()) {
      const torch::Tensor flat = x.contiguous();
      all.insert(all.end(), flat.const_data_ptr<float>(),
                 flat.const_data_ptr<float>() + flat.numel());
    }
    return all;
  }));
}

INSTANTIATE_TEST_SUITE_P(Every, EveryCudaAttention,
                         testing::Values("nystrom[num_landmarks=5,conv_kernel_size=3]",
                                         "linformer[projected_length=4]", "linear", "cosformer",
                                         "performer[num_features=9]",
                                         "performer[num_features=9,kernel=relu]", "local[block=16]",
                                         "longformer[window=8,global_tokens=3]", "bigbird[block=8]",
                                         "sparse[block=16,summary=4]",
                                         "reformer[chunk_length=16]"));

}  // namespace
}  // namespace lra
