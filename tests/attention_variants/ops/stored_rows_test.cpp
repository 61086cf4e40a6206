// What the CPU's own operators read and write in bfloat16, as autocast stores it.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <limits>
#include <tuple>
#include <vector>

#include "attention_variants/ops/autocast.h"
#include "attention_variants/ops/cpu/kernels/gemm/gemm_bf16.h"
#include "attention_variants/ops/cpu/kernels/kernels.h"
#include "attention_variants/ops/cpu/rounding.h"
#include "attention_variants/ops/feed_forward.h"
#include "attention_variants/ops/gates.h"
#include "attention_variants/ops/softmax_attention.h"
#include "tests/attention_variants/parity.h"
#include "tests/attention_variants/testing.h"

namespace lra {
namespace {

using torch::Tensor;
using Tensors = std::vector<Tensor>;

// Every bfloat16, and numbers between any two of them, of all sizes.
TEST(BFloat16Rows, AreRoundedAsLibTorchRounds) {
  constexpr int64_t kCount = int64_t{1} << 16;
  const Tensor all =
      torch::arange(-kCount / 2, kCount / 2).to(torch::kInt16).view(torch::kBFloat16);
  torch::manual_seed(1);
  const Tensor bits = torch::randint(std::numeric_limits<int32_t>::min(),
                                     std::numeric_limits<int32_t>::max(), {kCount}, torch::kInt32),
               halves = all.view(torch::kInt16).to(torch::kInt32) * kCount + 0x8000;
  const auto same = [](const Tensor& a, const Tensor& b) {
    const auto type = a.element_size() == 2 ? torch::kInt16 : torch::kInt32;
    const Tensor numbers = a.isnan().logical_not();
    EXPECT_TRUE(torch::equal(a.isnan(), b.isnan()));
    return torch::equal(a.view(type).masked_select(numbers), b.view(type).masked_select(numbers));
  };
  for (const ops::cpu::KernelTable* const table : ops::cpu::kernel_tables()) {
    SCOPED_TRACE(table->isa);
    const Tensor wide = torch::empty({kCount});
    table->from_bfloat16({ops::cpu::bfloat16_data(all), kCount}, 1, kCount,
                         {wide.mutable_data_ptr<float>(), kCount});
    EXPECT_TRUE(same(wide, all.to(torch::kFloat)));
    for (const Tensor& x : {bits.view(torch::kFloat), halves.view(torch::kFloat), wide}) {
      const Tensor rounded = torch::empty({kCount}, torch::kBFloat16);
      table->to_bfloat16({x.const_data_ptr<float>(), kCount}, 1, kCount,
                         {ops::cpu::mutable_bfloat16_data(rounded), kCount});
      EXPECT_TRUE(same(rounded, x.to(torch::kBFloat16)));
    }
  }
}

TEST(BFloat16Rows, LeaveWhatStandsBetweenThem) {
  torch::manual_seed(1);
  for (const auto& [rows, width, stride] : {std::tuple{5, 37, 50}, {3, 64, 64}, {1, 1, 3}}) {
    const Tensor x = torch::randn({rows, stride}),
                 halves = torch::full({rows, stride}, 7.0, torch::kBFloat16),
                 floats = torch::full({rows, stride}, 7.0);
    ops::cpu::to_bfloat16({x.const_data_ptr<float>(), stride}, rows, width,
                          {ops::cpu::mutable_bfloat16_data(halves), stride});
    ops::cpu::from_bfloat16({ops::cpu::bfloat16_data(halves), stride}, rows, width,
                            {floats.mutable_data_ptr<float>(), stride});
    for (const Tensor& found : {halves.to(torch::kFloat), floats}) {
      EXPECT_TRUE(torch::equal(found.narrow(1, 0, width),
                               x.narrow(1, 0, width).to(torch::kBFloat16).to(torch::kFloat)));
      EXPECT_TRUE(found.narrow(1, width, stride - width).eq(7).all().item<bool>());
    }
  }
}

class StoredHeadsOf : public testing::TestWithParam<ParityCase> {};

// Of heads stored in bfloat16 a kernel computes what it does of the same numbers in float32: the
// result is that one's, rounded. Gradients may be made of a stored result, and are held to be near.
TEST_P(StoredHeadsOf, AreComputedInFloat32) {
  const ParityCase& c = GetParam();
  ParityInputs given(c);
  for (Tensor* t : {&given.inputs[0], &given.inputs[1], &given.inputs[2], &given.gradient})
    *t = t->to(torch::kBFloat16);
  const RestoredThreads restored;
  for (const int threads : {1, 5}) {
    at::set_num_threads(threads);
    const auto under_autocast = [&](Kernels kernels, torch::ScalarType type) {
      return given.results(c, kernels, torch::kFloat, ops::Dtype::bfloat16, type);
    };
    const auto stored = under_autocast(Kernels::fused, torch::kBFloat16),
               wide = under_autocast(Kernels::fused, torch::kFloat),
               plain = under_autocast(Kernels::reference, torch::kBFloat16);
    // Of linformer the projected keys and values are stored too; on AMX the exponents of bfloat16
    // heads are sums of as exact products in another order.
    const bool otherwise = c.attention.starts_with("linformer") ||
                           (c.attention.starts_with("performer") &&
                            ops::cpu::gemm_bf16_backend() == ops::cpu::GemmBf16Backend::amx);
    EXPECT_EQ(stored[0].scalar_type(), torch::kBFloat16);
    EXPECT_TRUE(otherwise || torch::equal(stored[0], wide[0].to(torch::kBFloat16)));
    for (size_t i = 0; i < wide.size(); ++i) {
      EXPECT_EQ(stored[i].scalar_type(), plain[i].scalar_type()) << i;
      EXPECT_LT(bfloat16_error(stored[i], wide[i].to(torch::kDouble)), 4 * 0x1p-8) << i;
    }
  }
}

using Padding = ParityPadding;
INSTANTIATE_TEST_SUITE_P(
    Every, StoredHeadsOf,
    testing::Values(
        ParityCase{"nystrom[num_landmarks=16]", 3, 2, 100, 32, Padding::end},
        ParityCase{"nystrom[num_landmarks=7,conv_kernel_size=0]", 1, 1, 301, 5, Padding::none},
        ParityCase{"nystrom[num_landmarks=16,init=global]", 3, 2, 100, 8, Padding::scattered},
        ParityCase{"standard", 3, 2, 300, 32, Padding::end},
        ParityCase{"standard", 1, 1, 700, 9, Padding::none},
        ParityCase{"standard[dropout=0.2]", 2, 2, 150, 8, Padding::scattered},
        ParityCase{"linear", 3, 2, 300, 16, Padding::end},
        ParityCase{"linear", 1, 1, 700, 9, Padding::none},
        ParityCase{"performer", 3, 2, 200, 16, Padding::scattered},
        ParityCase{"performer[key_max=batch]", 2, 2, 200, 16, Padding::end},
        ParityCase{"cosformer", 2, 2, 300, 16, Padding::scattered},
        ParityCase{"linformer", 3, 2, 300, 32, Padding::scattered},
        ParityCase{"linformer[sharing=heads_only]", 1, 1, 300, 7, Padding::end},
        ParityCase{"reformer[chunk_length=16]", 2, 2, 200, 16, Padding::end},
        ParityCase{"reformer[chunk_length=16]", 1, 1, 500, 8, Padding::none},
        ParityCase{"performer[key_max=batch]", 1, 2, 500, 8, Padding::none},
        ParityCase{"nystrom[num_landmarks=16,init=global]", 1, 2, 500, 8, Padding::none},
        ParityCase{"bigbird[block=8]", 2, 2, 200, 16, Padding::end},
        ParityCase{"longformer[window=16]", 2, 1, 200, 16, Padding::scattered}));

// Where autocast leaves q alone, which a table has not made narrower as it did k and v.
TEST(StoredHeads, OfEitherTypeGoTogether) {
  torch::manual_seed(3);
  const auto draw = [] { return torch::randn({2, 2, 300, 16}).to(torch::kBFloat16); };
  const Tensor q = draw(), k = draw(), v = draw(), mask = torch::ones({2, 300}, torch::kBool);
  const ops::AutocastScope autocast(torch::kCPU, ops::Dtype::bfloat16);
  const Tensor stored = ops::softmax_attention(Kernels::fused, {q, k, v, mask, mask}),
               mixed =
                   ops::softmax_attention(Kernels::fused, {q.to(torch::kFloat), k, v, mask, mask});
  EXPECT_EQ(mixed.scalar_type(), torch::kFloat);
  EXPECT_TRUE(torch::equal(mixed.to(torch::kBFloat16), stored));
}

TEST(StoredHeads, OfEmptyBatches) {
  const AttentionContext context{.width = 8, .heads = 2, .head_dim = 4, .max_length = 90};
  for (const char* spec : {"standard", "nystrom[num_landmarks=8]", "nystrom[init=global]", "linear",
                           "performer[key_max=batch]", "linformer", "bigbird[block=8]"}) {
    const auto attention = make_attention(parse_attention(spec), context);
    const Tensor none = torch::empty({0, 2, 90, 4}, torch::kBFloat16).requires_grad_();
    const ops::AutocastScope autocast(torch::kCPU, ops::Dtype::bfloat16);
    const Tensor out = attention->attend(none, none, none, torch::ones({0, 90}, torch::kBool));
    EXPECT_EQ(out.sizes(), none.sizes()) << spec;
    EXPECT_EQ(torch::autograd::grad({out.sum()}, {none})[0].sizes(), none.sizes()) << spec;
  }
}

// y = x Wᵀ + b and what stands around it, of x in float32 and in bfloat16.
class StoredProductsOf : public testing::TestWithParam<torch::ScalarType> {};
INSTANTIATE_TEST_SUITE_P(Types, StoredProductsOf, testing::Values(torch::kFloat, torch::kBFloat16));

// The results of `run` and its gradients: by own kernels and by LibTorch's operators under
// autocast, where x, the first of `given`, is stored in `stored`, and in float64.
template <class Run>
void expect_as_autocast(const Tensors& given, torch::ScalarType stored, const Run& run) {
  const auto results = [&](torch::ScalarType type, Kernels kernels) {
    Tensors leaves;
    for (const Tensor& t : given) {
      const bool rows = leaves.empty() && type == torch::kFloat;
      leaves.push_back(t.to(rows ? stored : type).detach().requires_grad_());
    }
    torch::manual_seed(4);
    Tensors all = run(kernels, leaves), gradients;
    for (const Tensor& y : all) {
      gradients.push_back(torch::sin(torch::arange(y.numel(), torch::kDouble))
                              .view(y.sizes())
                              .to(torch::kBFloat16)
                              .to(y.scalar_type()));
    }
    const Tensors found = torch::autograd::grad(all, leaves, gradients);
    all.insert(all.end(), found.begin(), found.end());
    return all;
  };
  const Tensors exact = results(torch::kDouble, Kernels::reference);
  const ops::AutocastScope autocast(torch::kCPU, ops::Dtype::bfloat16);
  const Tensors fused = results(torch::kFloat, Kernels::fused),
                plain = results(torch::kFloat, Kernels::reference);
  for (size_t i = 0; i < exact.size(); ++i) {
    EXPECT_EQ(fused[i].scalar_type(), plain[i].scalar_type()) << i;
    expect_near_in_bfloat16(fused[i], plain[i], exact[i], i);
  }
}

Tensors drawn(const std::vector<std::vector<int64_t>>& sizes) {
  torch::manual_seed(2);
  Tensors all;
  for (const auto& of : sizes) all.push_back(0.5 * torch::randn(of).to(torch::kBFloat16));
  return all;
}

Tensor padded_mask() {
  Tensor mask = torch::ones({2, 300}, torch::kBool);
  mask[1].slice(0, 7).fill_(false);
  return mask;
}

TEST_P(StoredProductsOf, OfLinearLayers) {
  const Tensor mask = padded_mask(), real = mask.unsqueeze(-1);
  for (const bool normed : {false, true}) {
    expect_as_autocast(drawn({{2, 300, 10}, {7, 10}, {7}, {3, 10}, {3}, {10}, {10}}), GetParam(),
                       [&](Kernels kernels, const Tensors& t) {
                         const ops::RowNorm norm{.weight = t[5], .bias = t[6]};
                         // Unused otherwise, and a gradient is asked for.
                         const Tensor touch = 0 * (t[5].sum() + t[6].sum());
                         const auto [y, x] = ops::linear(kernels, t[0], normed ? &norm : nullptr,
                                                         {{t[1], t[2]}, {t[3], t[4]}}, mask);
                         return Tensors{y[0] * real, y[1] * real, x * real + touch};
                       });
  }
}

TEST_P(StoredProductsOf, OfTheMaskedLayer) {
  const Tensor mask = padded_mask();
  expect_as_autocast(drawn({{2, 300, 10}, {7, 10}, {7}}), GetParam(),
                     [&](Kernels kernels, const Tensors& t) {
                       return Tensors{ops::masked_linear(kernels, t[0], {t[1], t[2]}, mask)};
                     });
}

// To rows of float32, which they stay.
TEST_P(StoredProductsOf, AddedToRows) {
  const Tensor mask = padded_mask(), real = mask.unsqueeze(-1);
  expect_as_autocast(drawn({{2, 300, 5}, {7, 5}, {7}, {2, 300, 7}}), GetParam(),
                     [&](Kernels kernels, const Tensors& t) {
                       return Tensors{ops::add_projected(kernels, t[3], t[0], {t[1], t[2]},
                                                         /*dropout=*/0, /*training=*/true, mask) *
                                      real};
                     });
  expect_as_autocast(
      drawn({{2, 300, 5}, {7, 5}, {7}, {2, 300, 7}}), GetParam(),
      [&](Kernels kernels, const Tensors& t) {
        return Tensors{ops::add_projected(kernels, t[3], t[0], {t[1], t[2]},
                                          /*dropout=*/0.25, /*training=*/true, mask) *
                       real};
      });
  expect_as_autocast(drawn({{2, 300, 7}, {2, 300, 7}}), GetParam(),
                     [&](Kernels kernels, const Tensors& t) {
                       return Tensors{ops::add_dropped_out(kernels, t[1], t[0], /*dropout=*/0.25,
                                                           /*training=*/true, mask) *
                                      real};
                     });
}

TEST_P(StoredProductsOf, Gated) {
  const auto gated = [](Kernels kernels, const Tensors& t) {
    return Tensors{ops::sigmoid_gate(kernels, t[0], t[1])};
  };
  expect_as_autocast(drawn({{2, 300, 37}, {2, 300, 37}}), GetParam(), gated);
  const torch::ScalarType other = GetParam() == torch::kFloat ? torch::kBFloat16 : torch::kFloat;
  expect_as_autocast(
      drawn({{2, 300, 37}, {2, 300, 37}}), GetParam(), [&](Kernels kernels, const Tensors& t) {
        const bool exact = t[1].scalar_type() == torch::kDouble;
        return Tensors{ops::sigmoid_gate(kernels, t[0], exact ? t[1] : t[1].to(other))};
      });
  expect_as_autocast(drawn({{2, 300, 74}}), GetParam(), [](Kernels kernels, const Tensors& t) {
    return Tensors{ops::glu(kernels, t[0])};
  });
  for (const ops::Gelu form : {ops::Gelu::exact, ops::Gelu::tanh}) {
    expect_as_autocast(drawn({{2, 300, 37}}), GetParam(), [&](Kernels kernels, const Tensors& t) {
      return Tensors{ops::gelu(kernels, t[0], form)};
    });
  }
}

// Code that has left autocast, though it stands around it, gets float32, and products of it.
TEST(StoredProducts, OutsideOfAutocastAreFloat32) {
  torch::manual_seed(2);
  const Tensor x = torch::randn({2, 30, 10}), weight = torch::randn({7, 10}),
               bias = torch::randn({7});
  const auto product = [&] {
    return ops::linear(Kernels::fused, x, nullptr, {{weight, bias}}).y[0];
  };
  const Tensor float32 = product();
  EXPECT_EQ(float32.scalar_type(), torch::kFloat);
  const ops::AutocastScope autocast(torch::kCPU, ops::Dtype::bfloat16);
  EXPECT_EQ(product().scalar_type(), torch::kBFloat16);
  const c10::impl::ExcludeDispatchKeyGuard left(c10::autocast_dispatch_keyset);
  EXPECT_TRUE(torch::equal(product(), float32));
}

// Its parameters are bfloat16, whatever autocast makes of others.
TEST(StoredProducts, OfAModuleInBFloat16) {
  torch::manual_seed(2);
  const AttentionContext context{.width = 16, .heads = 2, .head_dim = 8, .max_length = 90};
  const Tensor x = torch::randn({2, 90, 16}).to(torch::kBFloat16),
               mask = torch::ones({2, 90}, torch::kBool);
  for (const char* spec : {"standard", "nystrom[num_landmarks=8]", "linear", "performer"}) {
    const auto attention = make_attention(parse_attention(spec), context);
    attention->to(torch::kBFloat16);
    const Tensor plain = attention->forward(x, mask);
    const ops::AutocastScope autocast(torch::kCPU, ops::Dtype::bfloat16);
    const Tensor found = attention->forward(x, mask);
    EXPECT_EQ(found.scalar_type(), torch::kBFloat16) << spec;
    EXPECT_LT(difference(found.to(torch::kDouble), plain.to(torch::kDouble)), 4 * 0x1p-8) << spec;
  }
}

}  // namespace
}  // namespace lra
