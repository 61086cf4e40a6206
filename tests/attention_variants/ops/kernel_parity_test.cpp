// The CPU kernels of attentions against the plain formulas of LibTorch's operators: with their
// gradients, under autocast, with padding that holds anything, on any number of threads.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "tests/attention_variants/parity.h"
#include "tests/attention_variants/testing.h"

namespace lra {
namespace {

using Case = ParityCase;
using Padding = ParityPadding;
using Given = ParityInputs;

class KernelParity : public testing::TestWithParam<Case> {};

TEST_P(KernelParity, OfResultAndGradients) {
  const Case& c = GetParam();
  Given given(c);
  const auto fused = given.results(c, Kernels::fused, torch::kFloat),
             plain = given.results(c, Kernels::reference, torch::kFloat),
             exact = given.results(c, Kernels::reference, torch::kDouble);
  expect_as_exact(fused, plain, exact, 2e-6);
  // The kernel did compute: its rounding is its own, but of a few numbers that may agree.
  if (c.length > 2) {
    EXPECT_FALSE(torch::equal(fused[0], plain[0]));
  }
}

// Products round their operands, and nothing else is rounded: no further off than LibTorch's
// operators under autocast, or by four units of bfloat16 of numbers of size 1, as what is given.
TEST_P(KernelParity, UnderAutocast) {
  const Case& c = GetParam();
  Given given(c);
  const auto fused = given.results(c, Kernels::fused, torch::kFloat, ops::Dtype::bfloat16),
             float32 = given.results(c, Kernels::fused, torch::kFloat),
             plain = given.results(c, Kernels::reference, torch::kFloat, ops::Dtype::bfloat16),
             exact = given.results(c, Kernels::reference, torch::kDouble);
  for (size_t i = 0; i < exact.size(); ++i) {
    EXPECT_EQ(fused[i].scalar_type(), torch::kFloat) << i;
    // Of a single key the gradient is zero: the difference of two numbers that round each its way.
    if (exact[i].abs().max().item<double>() == 0) continue;
    expect_near_in_bfloat16(fused[i], plain[i], exact[i], i);
  }
  EXPECT_FALSE(torch::equal(fused[0], float32[0]));
}

INSTANTIATE_TEST_SUITE_P(
    Nystrom, KernelParity,
    testing::Values(
        Case{"nystrom[num_landmarks=16]", 3, 2, 100, 32, Padding::none},
        Case{"nystrom[num_landmarks=16]", 3, 2, 100, 32, Padding::end},
        Case{"nystrom[num_landmarks=7,pinv_iterations=4,conv_kernel_size=4]", 3, 2, 101, 8,
             Padding::scattered},
        Case{"nystrom[conv_kernel_size=0]", 2, 3, 300, 16, Padding::end},
        Case{"nystrom[conv_kernel_size=1]", 2, 1, 65, 5, Padding::scattered},
        Case{"nystrom[num_landmarks=1,conv_kernel_size=3]", 2, 2, 2, 4, Padding::none},
        Case{"nystrom[num_landmarks=16,conv_kernel_size=13]", 2, 2, 300, 23, Padding::scattered},
        Case{"nystrom[num_landmarks=16,conv_kernel_size=601]", 2, 1, 300, 8, Padding::scattered},
        Case{"nystrom[pinv_iterations=0,conv_kernel_size=3]", 2, 2, 600, 32, Padding::scattered},
        Case{"nystrom", 2, 2, 1024, 32, Padding::end},
        Case{"nystrom[num_landmarks=16,padding=zeroed]", 3, 2, 100, 32, Padding::end},
        Case{"nystrom[num_landmarks=7,padding=zeroed]", 3, 2, 101, 8, Padding::scattered},
        Case{"nystrom[num_landmarks=16,init=global]", 3, 2, 100, 32, Padding::none},
        Case{"nystrom[num_landmarks=16,init=global]", 3, 2, 100, 8, Padding::scattered},
        Case{"nystrom[init=global,pinv_iterations=1,conv_kernel_size=0]", 2, 3, 300, 16,
             Padding::end},
        Case{"nystrom[init=global,padding=zeroed]", 2, 2, 1024, 32, Padding::end}));

// Samples that are the same have the same norm, whose gradient they share, as of torch.max().
TEST(SharedNormParity, OfEqualNorms) {
  const Case c{"nystrom[num_landmarks=16,init=global]", 3, 2, 100, 8, Padding::none};
  Given given(c);
  const auto first_of = [](const torch::Tensor& x) { return x.narrow(0, 0, 1).expand_as(x); };
  for (torch::Tensor& x : given.inputs) x = first_of(x).contiguous();
  given.gradient = first_of(given.gradient).contiguous();
  const auto fused = given.results(c, Kernels::fused, torch::kFloat),
             plain = given.results(c, Kernels::reference, torch::kFloat),
             exact = given.results(c, Kernels::reference, torch::kDouble);
  EXPECT_TRUE(torch::allclose(exact[1][0], exact[1][2])) << "float64 took one for the largest";
  expect_as_exact(fused, plain, exact, 2e-6);
}

TEST(SharedNormParity, WithoutGradients) {
  const Case c{"nystrom[num_landmarks=16,init=global]", 3, 2, 100, 8, Padding::end};
  Given given(c);
  const auto attention = make_attention(parse_attention(c.attention), given.context);
  const auto result = [&] {
    return attention->attend(given.inputs[0], given.inputs[1], given.inputs[2], given.mask);
  };
  const torch::Tensor differentiated = result();
  const torch::NoGradGuard guard;
  EXPECT_TRUE(torch::equal(result(), differentiated));
}

INSTANTIATE_TEST_SUITE_P(
    Standard, KernelParity,
    testing::Values(Case{"standard", 3, 2, 1, 4, Padding::none},
                    Case{"standard", 3, 2, 100, 32, Padding::end},
                    Case{"standard", 2, 3, 300, 8, Padding::scattered},
                    Case{"standard", 1, 1, 129, 5, Padding::none},
                    Case{"standard", 4, 1, 600, 64, Padding::end},
                    Case{"standard[dropout=0.25]", 3, 2, 100, 32, Padding::end},
                    Case{"standard[dropout=0.1]", 2, 3, 300, 8, Padding::scattered},
                    Case{"standard[dropout=0.25]", 2, 1, 111, 8, Padding::none},
                    Case{"standard[dropout=0.5]", 4, 1, 600, 64, Padding::end}));

INSTANTIATE_TEST_SUITE_P(
    Linformer, KernelParity,
    testing::Values(Case{"linformer[projected_length=16]", 3, 2, 100, 32, Padding::end},
                    Case{"linformer[sharing=none]", 2, 2, 300, 8, Padding::scattered},
                    Case{"linformer[sharing=headwise]", 3, 2, 400, 8, Padding::scattered},
                    Case{"linformer[sharing=heads_only]", 3, 2, 300, 8, Padding::end},
                    Case{"linformer[sharing=key_value]", 2, 1, 257, 5, Padding::none}));

INSTANTIATE_TEST_SUITE_P(
    Features, KernelParity,
    testing::Values(Case{"linear", 3, 2, 100, 32, Padding::end},
                    Case{"linear", 2, 3, 300, 8, Padding::scattered},
                    Case{"linear", 1, 1, 257, 5, Padding::none},
                    Case{"linear[normalise=false]", 3, 2, 513, 16, Padding::end},
                    Case{"performer", 3, 2, 100, 32, Padding::end},
                    Case{"performer", 2, 2, 700, 32, Padding::scattered},
                    Case{"performer[num_features=7]", 1, 1, 129, 5, Padding::none},
                    Case{"performer[kernel=relu]", 3, 2, 300, 16, Padding::scattered},
                    Case{"performer[prescale=true]", 3, 2, 300, 16, Padding::scattered},
                    Case{"performer[prescale=true]", 2, 2, 257, 8, Padding::end},
                    Case{"performer[key_max=batch]", 3, 2, 100, 32, Padding::end},
                    Case{"performer[key_max=batch]", 2, 3, 300, 8, Padding::scattered},
                    Case{"performer[key_max=batch,prescale=true]", 3, 2, 300, 16,
                         Padding::scattered},
                    Case{"performer[max_gradient=detached]", 2, 2, 257, 8, Padding::end},
                    Case{"performer[key_max=batch,max_gradient=detached,epsilon=1e-3]", 2, 2, 257,
                         8, Padding::none},
                    Case{"performer[num_features=2,epsilon=1e-6,guard=0.02]", 3, 2, 300, 16,
                         Padding::scattered},
                    Case{"linear[epsilon=3]", 3, 2, 100, 32, Padding::end},
                    Case{"cosformer", 3, 2, 100, 32, Padding::end},
                    Case{"cosformer", 2, 3, 300, 5, Padding::scattered}));

INSTANTIATE_TEST_SUITE_P(
    Patterns, KernelParity,
    testing::Values(Case{"local", 3, 2, 200, 32, Padding::end},
                    Case{"local[block=7]", 2, 3, 100, 5, Padding::scattered},
                    Case{"local[block=300]", 2, 1, 700, 8, Padding::none},
                    Case{"longformer[window=64]", 3, 2, 400, 16, Padding::end},
                    Case{"longformer[window=6]", 2, 2, 100, 8, Padding::scattered},
                    Case{"longformer[window=32,global_tokens=5]", 3, 2, 300, 8, Padding::scattered},
                    Case{"longformer", 2, 2, 100, 8, Padding::end},
                    Case{"bigbird[block=16]", 3, 2, 300, 16, Padding::end},
                    Case{"bigbird[block=8,random_blocks=2]", 2, 3, 203, 8, Padding::scattered},
                    Case{"bigbird", 2, 2, 100, 8, Padding::end},
                    Case{"sparse[block=32,summary=8]", 3, 2, 300, 16, Padding::end},
                    Case{"sparse[block=16,summary=15,causal=true]", 2, 2, 100, 8, Padding::none},
                    Case{"sparse[block=16,summary=0]", 2, 3, 90, 8, Padding::scattered},
                    Case{"sparse[block=32,summary=8,causal=true]", 2, 2, 203, 8,
                         Padding::scattered},
                    Case{"sparse[block=128]", 2, 2, 100, 8, Padding::end}));

INSTANTIATE_TEST_SUITE_P(
    Reformer, KernelParity,
    testing::Values(Case{"reformer[chunk_length=16]", 3, 2, 200, 32, Padding::end},
                    Case{"reformer[chunk_length=8,num_hashes=3]", 2, 3, 101, 5, Padding::scattered},
                    Case{"reformer[chunk_length=16,num_hashes=1,key_scale=unit]", 2, 2, 300, 8,
                         Padding::scattered},
                    Case{"reformer[chunk_length=16,chunks_before=2,chunks_after=1]", 3, 1, 130, 16,
                         Padding::end},
                    // Fewer chunks than a chunk sees: some are seen more than once.
                    Case{"reformer[chunk_length=16,num_hashes=1,chunks_before=2]", 3, 2, 30, 8,
                         Padding::none},
                    Case{"reformer[chunk_length=8,chunks_before=0]", 2, 2, 90, 8, Padding::none},
                    Case{"reformer[chunk_length=2,num_buckets=6]", 2, 2, 50, 4, Padding::end},
                    Case{"reformer[chunk_length=600]", 2, 2, 1300, 8, Padding::end},
                    Case{"reformer", 3, 2, 60, 8, Padding::scattered},
                    Case{"reformer", 2, 2, 1024, 32, Padding::end}));

// Rows of padding hold anything; the kernel sees none of it, forward or backward.
class EveryKernel : public testing::TestWithParam<const char*> {};

TEST_P(EveryKernel, PaddingMayHoldAnything) {
  torch::manual_seed(2);
  torch::Tensor mask = torch::rand({2, 90}).gt(0.3);
  mask[1].slice(0, 50).fill_(false);
  const auto draw = [] { return torch::randn({2, 2, 90, 8}); };
  std::vector<torch::Tensor> inputs = {draw(), draw(), draw()};
  const torch::Tensor gradient = draw();
  const AttentionContext context{.width = 16, .heads = 2, .head_dim = 8, .max_length = 90};
  const AttentionSpec spec = parse_attention(GetParam());
  const auto clean = evaluate(spec, context, torch::kFloat, inputs, mask, gradient);
  const torch::Tensor padding = mask.logical_not().unsqueeze(1).unsqueeze(-1);
  for (torch::Tensor& x : inputs)
    x = x.masked_fill(padding, std::numeric_limits<float>::quiet_NaN());
  const auto dirty = evaluate(spec, context, torch::kFloat, inputs, mask, gradient);
  for (size_t i = 0; i < clean.size(); ++i) EXPECT_TRUE(torch::equal(clean[i], dirty[i])) << i;
}

INSTANTIATE_TEST_SUITE_P(Every, EveryKernel,
                         testing::Values("nystrom[num_landmarks=8]",
                                         "nystrom[num_landmarks=8,init=global,padding=zeroed]",
                                         "performer[key_max=batch]", "standard", "linformer",
                                         "linear", "performer", "cosformer", "local[block=16]",
                                         "longformer[window=8,global_tokens=3]", "bigbird[block=8]",
                                         "sparse[block=16,summary=4]",
                                         "reformer[chunk_length=16]"));

// The projections around attend(), of one, two and three inputs.
TEST(Kernels, ComputeTheWholeLayer) {
  torch::manual_seed(9);
  torch::Tensor mask = torch::ones({3, 100}, torch::kBool);
  mask[1].slice(0, 60).fill_(false);
  const torch::Tensor x = torch::randn({3, 100, 12}), gradient = torch::randn({3, 100, 12});
  for (const char* spec : {"synthesizer[kind=random]", "reformer[chunk_length=16]", "standard"}) {
    const auto results = [&](torch::ScalarType type, Kernels kernels) {
      torch::manual_seed(2);
      const auto layer = make_attention(
          parse_attention(spec),
          {.width = 12, .heads = 2, .head_dim = 8, .max_length = 100, .kernels = kernels});
      layer->to(type);
      std::vector<torch::Tensor> leaves = layer->parameters();
      leaves.push_back(x.to(type).detach().requires_grad_());
      const torch::Tensor out = layer->forward(leaves.back(), mask);
      std::vector<torch::Tensor> all = torch::autograd::grad({out}, leaves, {gradient.to(type)});
      all.push_back(out.detach());
      return all;
    };
    const auto fused = results(torch::kFloat, Kernels::fused),
               exact = results(torch::kDouble, Kernels::reference);
    for (size_t i = 0; i < exact.size(); ++i) {
      // The gradient of standard's key bias is zero.
      EXPECT_TRUE(torch::allclose(fused[i].to(torch::kDouble), exact[i], 1e-4, 1e-5))
          << spec << " " << i;
    }
  }
}

TEST(Kernels, AreTheSameForAnyNumberOfThreads) {
  torch::manual_seed(4);
  const auto draw = [] { return torch::randn({33, 2, 200, 8}); };
  const std::vector<torch::Tensor> inputs = {draw(), draw(), draw()};
  const torch::Tensor gradient = draw(), mask = torch::rand({33, 200}).gt(0.2);
  const AttentionContext context{.width = 16, .heads = 2, .head_dim = 8, .max_length = 200};
  const RestoredThreads restored;
  for (const char* spec :
       {"nystrom[num_landmarks=8]", "nystrom[num_landmarks=8,init=global,padding=zeroed]",
        "standard", "standard[dropout=0.2]", "linear", "performer", "performer[key_max=batch]",
        "cosformer", "bigbird[block=8]", "reformer[chunk_length=16]", "linformer",
        "linformer[sharing=heads_only]"}) {
    for (const ops::Dtype autocast : {ops::Dtype::float32, ops::Dtype::bfloat16}) {
      const auto with = [&](int threads) {
        at::set_num_threads(threads);
        return evaluate(parse_attention(spec), context, torch::kFloat, inputs, mask, gradient,
                        autocast);
      };
      const auto one = with(1);
      for (const int threads : {2, 5}) {
        const auto many = with(threads);
        for (size_t i = 0; i < one.size(); ++i)
          EXPECT_TRUE(torch::equal(one[i], many[i]))
              << spec << " " << to_string(autocast) << " " << i;
      }
    }
  }
}

}  // namespace
}  // namespace lra
