// Own CPU kernels against the plain formulas of LibTorch's operators: float32 kernels may be off
// from float64 by little more than those in float32 are.
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <limits>
#include <random>
#include <thread>

#include "attention_variants/ops/autocast.h"
#include "attention_variants/ops/cpu/kernels/gemm/gemm.h"
#include "attention_variants/ops/cpu/kernels/rows/row_ops.h"
#include "attention_variants/ops/cpu/kernels/rows/simd.h"
#include "attention_variants/ops/cpu/kernels/rows/vector_math.h"
#include "attention_variants/ops/cpu/parallel.h"
#include "attention_variants/ops/dispatch.h"
#include "attention_variants/ops/linear.h"
#include "attention_variants/projected_attention.h"
#include "attention_variants/registry.h"
#include "tests/attention_variants/testing.h"

namespace lra {
namespace {

TEST(VectorMath, ExpIsWithinTwoUlps) {
  double worst = 0;
  for (double x = -87.2; x < 88; x += 0.00037) {
    const auto given = static_cast<float>(x);
    const double exact = std::exp(static_cast<double>(given));
    worst = std::max(worst, std::abs(ops::cpu::exp(given) - exact) / exact);
  }
  EXPECT_LT(worst, 2 * 0x1p-23);
  EXPECT_EQ(ops::cpu::exp(-std::numeric_limits<float>::infinity()), 0.0F);
  EXPECT_EQ(ops::cpu::exp(-200.0F), 0.0F);
  EXPECT_EQ(ops::cpu::exp(0.0F), 1.0F);
  EXPECT_TRUE(std::isfinite(ops::cpu::exp(1000.0F)));
  EXPECT_TRUE(std::isnan(ops::cpu::exp(std::nanf(""))));
}

template <int64_t kWidth>
void expect_powers_of_two() {
  using C = ops::cpu::Simd<kWidth>;
  const auto power = [](float given) {
    float x[kWidth];
    std::fill(x, x + kWidth, given);
    C::exp2_in_place(C::at(x));
    for (const float lane : x)
      EXPECT_EQ(std::bit_cast<uint32_t>(lane), std::bit_cast<uint32_t>(x[0]));
    return x[0];
  };
  double worst = 0;
  for (double x = -126; x <= 126; x += 0.00137) {
    const auto given = static_cast<float>(x);
    const double exact = std::exp2(static_cast<double>(given));
    worst = std::max(worst, std::abs(power(given) - exact) / exact);
  }
  EXPECT_LT(worst, 2 * 0x1p-23);
  EXPECT_EQ(power(0.0F), 1.0F);
  EXPECT_EQ(power(-126.0F), 0x1p-126F);
  EXPECT_EQ(power(-1000.0F), 0.0F);
  EXPECT_EQ(power(-std::numeric_limits<float>::infinity()), 0.0F);
  EXPECT_TRUE(std::isnan(power(std::nanf(""))));
  EXPECT_TRUE(std::isnan(power(std::nanf("12345"))));
}

TEST(VectorMath, PowersOfTwoAreWithinTwoUlps) {
  expect_powers_of_two<16>();
  expect_powers_of_two<8>();
  expect_powers_of_two<4>();
  expect_powers_of_two<1>();
}

TEST(VectorMath, ErfIsWithinTwoUlps) {
  double worst = 0;
  for (double x = -6; x < 6; x += 0.00013) {
    const auto given = static_cast<float>(x);
    const double exact = std::erf(static_cast<double>(given));
    if (exact != 0) worst = std::max(worst, std::abs((ops::cpu::erf(given) - exact) / exact));
  }
  EXPECT_LT(worst, 2 * 0x1p-23);
  EXPECT_EQ(ops::cpu::erf(100.0F), 1.0F);
  EXPECT_EQ(ops::cpu::erf(-100.0F), -1.0F);
  EXPECT_TRUE(std::isnan(ops::cpu::erf(std::nanf(""))));
}

// The result and the gradients towards q, k, v (or v and what is both q and k) and all parameters.
std::vector<torch::Tensor> evaluate(const AttentionSpec& spec, const AttentionContext& context,
                                    torch::ScalarType type, std::vector<torch::Tensor> inputs,
                                    const torch::Tensor& mask, const torch::Tensor& gradient,
                                    ops::Dtype autocast = ops::Dtype::float32) {
  torch::manual_seed(3);
  auto attention = make_attention(spec, context);
  attention->to(type);
  const bool shared = attention->projections() == Projections::shared_query_key;
  if (shared) inputs.erase(inputs.begin() + 1);
  for (torch::Tensor& x : inputs) x = x.to(type).detach().requires_grad_();
  torch::Tensor out;
  {
    const ops::AutocastScope scope(torch::kCPU, autocast);
    out = attention->attend(inputs[0], inputs[shared ? 0 : 1], inputs.back(), mask);
  }
  std::vector<torch::Tensor> towards = inputs;
  for (const auto& parameter : attention->named_parameters()) {
    if (!is_projection(parameter.key())) towards.push_back(parameter.value());
  }
  std::vector<torch::Tensor> all =
      torch::autograd::grad({out}, towards, {gradient.to(out.scalar_type())});
  all.insert(all.begin(), out.detach());
  return all;
}

enum class Padding { none, end, scattered };

struct Case {
  std::string attention;
  int64_t batch, heads, length, head_dim;
  Padding padding;
};
void PrintTo(const Case& c, std::ostream* to) {
  const char* paddings[] = {"no padding", "padded at the end", "padded anywhere"};
  *to << fmt::format("{} of {}x{}x{}x{}, {}", c.attention, c.batch, c.heads, c.length, c.head_dim,
                     paddings[static_cast<int>(c.padding)]);
}

// q, k, v and the gradient of the result.
struct Given {
  torch::Tensor mask;
  std::vector<torch::Tensor> inputs;
  torch::Tensor gradient;
  AttentionContext context;

  explicit Given(const Case& c)
      : mask(torch::ones({c.batch, c.length}, torch::kBool)),
        context{.width = c.heads * c.head_dim,
                .heads = c.heads,
                .head_dim = c.head_dim,
                .max_length = c.length} {
    torch::manual_seed(1);
    if (c.padding == Padding::end) {
      for (int64_t b = 1; b < c.batch; ++b) mask[b].slice(0, c.length * b / c.batch).fill_(false);
    } else if (c.padding == Padding::scattered) {
      mask = torch::rand({c.batch, c.length}).gt(0.4);
      mask[0].fill_(false);
    }
    const auto draw = [&] {
      return torch::randn({c.batch, c.length, c.heads, c.head_dim}).transpose(1, 2);
    };
    inputs = {draw(), draw(), draw()};
    gradient = draw();
  }

  std::vector<torch::Tensor> results(const Case& c, Kernels kernels, torch::ScalarType type,
                                     ops::Dtype autocast = ops::Dtype::float32) {
    context.kernels = kernels;
    return evaluate(parse_attention(c.attention), context, type, inputs, mask, gradient, autocast);
  }
};

// LibTorch's number of threads, back at the end.
struct Threads {
  int before = at::get_num_threads();
  ~Threads() { at::set_num_threads(before); }
};

class KernelParity : public testing::TestWithParam<Case> {};

TEST_P(KernelParity, OfResultAndGradients) {
  const Case& c = GetParam();
  Given given(c);
  const auto fused = given.results(c, Kernels::fused, torch::kFloat),
             plain = given.results(c, Kernels::reference, torch::kFloat),
             exact = given.results(c, Kernels::reference, torch::kDouble);
  ASSERT_EQ(fused.size(), exact.size());
  for (size_t i = 0; i < exact.size(); ++i) {
    // Rounding differs by luck too: four times the plain float32 error, or a few units.
    EXPECT_LT(error(fused[i], exact[i]), std::max(4 * error(plain[i], exact[i]), 2e-6)) << i;
  }
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
    const auto off = [&](const torch::Tensor& x) {
      const double size = std::max(exact[i].abs().max().item<double>(), 1.0);
      return (x.to(torch::kDouble) - exact[i]).abs().max().item<double>() / size;
    };
    EXPECT_LT(off(fused[i]), std::max(2 * off(plain[i]), 4 * 0x1p-8)) << i;
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
        Case{"nystrom", 2, 2, 1024, 32, Padding::end}));

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
                         testing::Values("nystrom[num_landmarks=8]", "standard", "linformer",
                                         "linear", "performer", "cosformer", "local[block=16]",
                                         "longformer[window=8,global_tokens=3]", "bigbird[block=8]",
                                         "sparse[block=16,summary=4]",
                                         "reformer[chunk_length=16]"));

TEST(LinearRows, LeaveTilesOfPaddingOut) {
  torch::manual_seed(5);
  torch::Tensor mask = torch::ones({3, 700}, torch::kBool);
  mask[1].slice(0, 3).fill_(false);
  mask[2].slice(0, 300).fill_(false);
  const torch::Tensor real = mask.unsqueeze(-1), x = torch::randn({3, 700, 10}).requires_grad_();
  std::vector<ops::LinearWeights> layers(3);
  std::vector<torch::Tensor> leaves = {x};
  for (ops::LinearWeights& layer : layers) {
    layer = {.weight = torch::randn({6, 10}).requires_grad_(),
             .bias = torch::randn({6}).requires_grad_()};
    leaves.insert(leaves.end(), {layer.weight, layer.bias});
  }
  const std::vector<torch::Tensor> gradients = {torch::randn({3, 700, 6}) * real,
                                                torch::randn({3, 700, 6}) * real,
                                                torch::randn({3, 700, 6}) * real};
  const auto some = ops::linear(Kernels::fused, x, nullptr, layers, mask).y;
  std::vector<torch::Tensor> plain;
  for (size_t i = 0; i < 3; ++i) {
    plain.push_back(torch::linear(x, layers[i].weight, layers[i].bias));
    EXPECT_TRUE(torch::allclose(some[i] * real, plain[i] * real, 1e-5, 1e-5));
    EXPECT_EQ(some[i][1].slice(0, 100, 500).abs().max().item<float>(), 0.0F);
  }
  const auto given = torch::autograd::grad({some[0], some[1], some[2]}, leaves, gradients),
             exact = torch::autograd::grad(plain, leaves, gradients);
  for (size_t i = 0; i < given.size(); ++i)
    EXPECT_TRUE(torch::allclose(given[i], exact[i], 1e-4, 1e-4)) << i;
}

// A parameter may be a view: a column of a table, say.
TEST(LinearRows, ReadABiasWhereItsElementsLieApart) {
  torch::manual_seed(6);
  const torch::Tensor x = torch::randn({2, 9, 10}), table = torch::randn({6, 3}),
                      mask = torch::ones({2, 9}, torch::kBool);
  const ops::LinearWeights layer{.weight = torch::randn({6, 10}), .bias = table.select(1, 1)};
  ASSERT_EQ(layer.bias.stride(0), 3);
  const torch::Tensor plain = torch::linear(x, layer.weight, layer.bias);
  EXPECT_TRUE(
      torch::allclose(ops::linear(Kernels::fused, x, nullptr, {layer}).y[0], plain, 1e-5, 1e-5));
  EXPECT_TRUE(
      torch::allclose(ops::masked_linear(Kernels::fused, x, layer, mask), plain, 1e-5, 1e-5));
}

TEST(Dispatch, PicksTheFirstThatTakesTheCall) {
  struct Call {
    using Result = torch::Tensor;
    using Shape = int;
  };
  using Way = ops::Implementation<Call>;
  static const Way ways[] = {{[](const ops::Place& place, const int& size) {
                                return ops::is_cpu_float(place) && size > 1;
                              },
                              [](const Call&) { return torch::zeros({1}); }},
                             {nullptr, [](const Call&) { return torch::ones({1}); }}};
  const ops::Place here, wide{.type = torch::kDouble}, elsewhere{.device = torch::kCUDA},
      halved{.autocast_ok = false};
  const auto picked = [&](Kernels asked, const ops::Place& place, int size) {
    return &ops::pick(ways, asked, place, size) - ways;
  };
  EXPECT_EQ(picked(Kernels::fused, here, 2), 0);
  EXPECT_EQ(picked(Kernels::reference, here, 2), 1);
  EXPECT_EQ(picked(Kernels::fused, here, 1), 1);
  for (const ops::Place& place : {wide, elsewhere, halved})
    EXPECT_EQ(picked(Kernels::fused, place, 2), 1);
  EXPECT_TRUE(ops::is_cpu_float(ops::Place::of_bytes(4)));
  EXPECT_FALSE(ops::is_cpu_float(ops::Place::of_bytes(8)));
  EXPECT_FALSE(ops::is_cpu_float(ops::Place::of_bytes(2)));
}

class SomeLinearRows : public testing::TestWithParam<int64_t> {};

TEST_P(SomeLinearRows, NormaliseFirstAndPassTheRowsOn) {
  const int64_t count = GetParam();
  torch::manual_seed(8);
  std::vector<torch::Tensor> given = {torch::randn({3, 301, 10}) + 2, torch::rand({10}) + 0.5,
                                      torch::randn({10})};
  std::vector<torch::Tensor> gradients;
  for (int64_t i = 0; i < count; ++i) {
    given.push_back(torch::randn({6 + i, 10}));
    given.push_back(torch::randn({6 + i}));
    gradients.push_back(torch::randn({3, 301, 6 + i}));
  }
  gradients.push_back(torch::randn({3, 301, 10}));
  const auto results = [&](torch::ScalarType type, bool fused) {
    std::vector<torch::Tensor> leaves, towards;
    for (const torch::Tensor& t : given) leaves.push_back(t.to(type).detach().requires_grad_());
    for (const torch::Tensor& t : gradients) towards.push_back(t.to(type));
    std::vector<ops::LinearWeights> layers;
    for (size_t i = 3; i < leaves.size(); i += 2)
      layers.push_back({.weight = leaves[i], .bias = leaves[i + 1]});
    std::vector<torch::Tensor> all;
    if (fused) {
      const ops::RowNorm norm{.weight = leaves[1], .bias = leaves[2]};
      const auto [y, x] = ops::linear(Kernels::fused, leaves[0], &norm, layers);
      all = y;
      all.push_back(x);
    } else {
      const torch::Tensor normal = torch::layer_norm(leaves[0], {10}, leaves[1], leaves[2]);
      for (const ops::LinearWeights& layer : layers)
        all.push_back(torch::linear(normal, layer.weight, layer.bias));
      all.push_back(leaves[0].clone());
    }
    const auto found = torch::autograd::grad(all, leaves, towards);
    all.insert(all.end(), found.begin(), found.end());
    return all;
  };
  const auto fused = results(torch::kFloat, true), exact = results(torch::kDouble, false);
  ASSERT_EQ(fused.size(), exact.size());
  for (size_t i = 0; i < exact.size(); ++i) EXPECT_LT(error(fused[i], exact[i]), 3e-6) << i;
}

INSTANTIATE_TEST_SUITE_P(Layers, SomeLinearRows, testing::Values(1, 2, 3));

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

TEST(InTurn, EveryItemIsTakenOnceByAThreadThereIs) {
  const Threads restored;
  for (const int threads : {1, 2, 5}) {
    at::set_num_threads(threads);
    for (const int64_t count : {0, 1, 3, 64, 1000}) {
      std::vector<std::atomic<int>> taken(static_cast<size_t>(count));
      std::vector<std::atomic<int>> busy(static_cast<size_t>(ops::cpu::threads_for(count)));
      std::atomic<int> failures = 0;
      ops::cpu::parallel_for_dynamic(count, [&](int64_t item, int64_t thread) {
        ++taken[static_cast<size_t>(item)];
        std::atomic<int>& own = busy.at(static_cast<size_t>(thread));
        if (++own != 1) ++failures;  // two at once under one number
        --own;
      });
      EXPECT_EQ(failures, 0);
      for (const auto& times : taken) EXPECT_EQ(times, 1) << threads << " " << count;
    }
  }
}

TEST(InTurn, EveryThreadRoundsProductsAsTheCallerDoes) {
  const Threads restored;
  at::set_num_threads(2);
  const ops::cpu::GemmPrecisionScope scope(ops::cpu::GemmPrecision::bfloat16);
  std::atomic<int> others = 0;
  std::array<std::atomic<bool>, 2> here{};
  ops::cpu::parallel_for_dynamic(2, [&](int64_t, int64_t thread) {
    here.at(static_cast<size_t>(thread)) = true;
    if (ops::cpu::detail::products != ops::cpu::GemmPrecision::bfloat16) ++others;
    // Neither takes both items.
    const auto late = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!(here[0] && here[1]) && std::chrono::steady_clock::now() < late)
      std::this_thread::yield();
  });
  EXPECT_TRUE(here[0] && here[1]);
  EXPECT_EQ(others, 0);
}

TEST(Kernels, AreTheSameForAnyNumberOfThreads) {
  torch::manual_seed(4);
  const auto draw = [] { return torch::randn({33, 2, 200, 8}); };
  const std::vector<torch::Tensor> inputs = {draw(), draw(), draw()};
  const torch::Tensor gradient = draw(), mask = torch::rand({33, 200}).gt(0.2);
  const AttentionContext context{.width = 16, .heads = 2, .head_dim = 8, .max_length = 200};
  const Threads restored;
  for (const char* spec :
       {"nystrom[num_landmarks=8]", "standard", "standard[dropout=0.2]", "linear", "performer",
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
