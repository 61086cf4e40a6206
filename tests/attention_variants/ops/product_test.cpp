// Products of small matrices, by every backend that this processor runs, against float64.
#include "attention_variants/ops/cpu/kernels/gemm/gemm_f32.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "attention_variants/ops/cpu/kernels/gemm/gemm_bf16.h"
#include "attention_variants/torch.h"

namespace lra::ops::cpu {
namespace {

// Columns of wider tensors, so that rows do not follow each other.
torch::Tensor draw(int64_t rows, int64_t columns) {
  return torch::randn({rows, columns + 3}).narrow(1, 0, columns);
}
ConstMatrix view(const torch::Tensor& x) { return {x.const_data_ptr<float>(), x.stride(0)}; }
Matrix mutable_view(const torch::Tensor& x) { return {x.mutable_data_ptr<float>(), x.stride(0)}; }

const std::vector<std::array<int64_t, 3>>& shapes() {  // m, n, k
  static const auto all = [] {
    std::vector<std::array<int64_t, 3>> shapes = {{64, 64, 64},  {256, 256, 32}, {64, 32, 300},
                                                  {7, 33, 513},  {100, 17, 256}, {23, 129, 257},
                                                  {13, 100, 1},  {1, 1, 1},      {37, 5, 19},
                                                  {300, 20, 90}, {20, 300, 90},  {260, 140, 530}};
    for (int64_t m = 1; m <= 26; ++m) shapes.push_back({m, 3 * m + 1, m % 5 + 1});
    return shapes;
  }();
  return all;
}

// multiply(transposed, m, n, k, a, b, c, scale) for all shapes, transpositions and scales, against
// float64 products of `rounded` operands: the error of an element is at most a rounding a term, and
// two more, of what is added up in absolute values.
template <class Rounded, class Multiply>
void expect_products(const std::vector<std::array<int64_t, 3>>& shapes, const Rounded& rounded,
                     const Multiply& gemm) {
  for (const auto& [m, n, k] : shapes) {
    for (const auto transposed : {Transposed::none, Transposed::a, Transposed::b}) {
      for (const GemmScale scale :
           {GemmScale{}, GemmScale{.product = 0.25F}, GemmScale{.product = -2, .old = 1},
            GemmScale{.old = 0.5F}, GemmScale{.old = 1}}) {
        const bool ta = transposed == Transposed::a, tb = transposed == Transposed::b;
        const torch::Tensor a = draw(ta ? k : m, ta ? m : k), b = draw(tb ? n : k, tb ? k : n),
                            whole = torch::randn({m, n + 3}), before = whole.clone(),
                            c = whole.narrow(1, 0, n);
        if (scale.old == 0) c.fill_(std::numeric_limits<float>::quiet_NaN());
        gemm(transposed, m, n, k, view(a), view(b), mutable_view(c), scale);
        const torch::Tensor left = torch::Tensor(rounded(ta ? a.t() : a)).to(torch::kDouble),
                            right = torch::Tensor(rounded(tb ? b.t() : b)).to(torch::kDouble),
                            old = scale.old * before.narrow(1, 0, n).to(torch::kDouble);
        const torch::Tensor exact = scale.product * torch::matmul(left, right) + old;
        const torch::Tensor size =
            std::abs(scale.product) * torch::matmul(left.abs(), right.abs()) + old.abs();
        const torch::Tensor error = (c.to(torch::kDouble) - exact).abs();
        EXPECT_TRUE(error.le(0x1p-24 * static_cast<double>(k + 2) * size).all().item<bool>())
            << m << " x " << n << " x " << k << ", transposed " << static_cast<int>(transposed)
            << ", scale " << scale.product << " and " << scale.old;
        EXPECT_TRUE(torch::equal(whole.narrow(1, n, 3), before.narrow(1, n, 3)))
            << "what stands beside c";
      }
    }
  }
}

class Product : public testing::TestWithParam<GemmBackend> {
 protected:
  void SetUp() override {
    const auto backends = gemm_backends();
    if (std::ranges::find(backends, GetParam()) == backends.end())
      GTEST_SKIP() << "this processor has no instructions for " << name_of(GetParam());
    torch::manual_seed(4);
  }
};

std::string backend_name(const testing::TestParamInfo<GemmBackend>& backend) {
  return name_of(backend.param);
}

INSTANTIATE_TEST_SUITE_P(Codes, Product,
                         testing::Values(GemmBackend::blas, GemmBackend::avx2, GemmBackend::avx512),
                         backend_name);

// BLAS promises less.
class ProductByRegisters : public Product {};

INSTANTIATE_TEST_SUITE_P(Codes, ProductByRegisters,
                         testing::Values(GemmBackend::avx2, GemmBackend::avx512), backend_name);

TEST_P(Product, IsThatOfFloat64ForAnyShapeAndScale) {
  expect_products(
      shapes(), [](const torch::Tensor& x) { return x; },
      [](auto... given) { gemm_f32(GetParam(), given...); });
}

// Where a sample stands in a batch, and how its rows are cut into tiles, changes no bit.
template <class Multiply>
void expect_tiles(const Multiply& gemm) {
  const int64_t m = 45, n = 83;
  for (const int64_t k : {70, 301}) {
    for (const auto transposed : {Transposed::none, Transposed::a, Transposed::b}) {
      for (const GemmScale scale :
           {GemmScale{}, GemmScale{.product = 0.3F, .old = 0.7F}, GemmScale{.old = 1}}) {
        const bool ta = transposed == Transposed::a, tb = transposed == Transposed::b;
        const torch::Tensor a = ta ? draw(k, m) : draw(m, k), b = tb ? draw(n, k) : draw(k, n),
                            old = torch::randn({m, n});
        const auto tile = [&](int64_t row, int64_t rows, int64_t column, int64_t columns) {
          const torch::Tensor c = old.narrow(0, row, rows)
                                      .narrow(1, column, columns)
                                      .clone(at::MemoryFormat::Contiguous);
          gemm(transposed, rows, columns, k, view(a.narrow(ta ? 1 : 0, row, rows)),
               view(b.narrow(tb ? 0 : 1, column, columns)), mutable_view(c), scale);
          return c;
        };
        const torch::Tensor whole = tile(0, m, 0, n);
        for (const int64_t first : {0, 1, 7, 31, 44}) {
          for (const int64_t count : {1, 3, 12, 14}) {
            const int64_t rows = std::min(count, m - first);
            EXPECT_TRUE(torch::equal(tile(first, rows, first, count),
                                     whole.narrow(0, first, rows).narrow(1, first, count)))
                << k << " " << static_cast<int>(transposed) << " " << scale.old << " " << first
                << " " << count;
          }
        }
      }
    }
  }
}

TEST_P(ProductByRegisters, OfATileIsThatTileOfTheProduct) {
  expect_tiles([](auto... given) { gemm_f32(GetParam(), given...); });
}

class RoundedProduct : public testing::TestWithParam<GemmBf16Backend> {
 protected:
  void SetUp() override {
    const auto backends = gemm_bf16_backends();
    if (std::ranges::find(backends, GetParam()) == backends.end())
      GTEST_SKIP() << "this processor, or its system, has no " << name_of(GetParam());
    torch::manual_seed(6);
  }
};

std::string bf16_backend_name(const testing::TestParamInfo<GemmBf16Backend>& backend) {
  return name_of(backend.param);
}

INSTANTIATE_TEST_SUITE_P(Codes, RoundedProduct,
                         testing::Values(GemmBf16Backend::float32, GemmBf16Backend::avx512,
                                         GemmBf16Backend::emulated_tiles, GemmBf16Backend::amx),
                         bf16_backend_name);

// Of rounded numbers in float32 there is BLAS where it suits the processor.
class RoundedProductOfTiles : public RoundedProduct {};

INSTANTIATE_TEST_SUITE_P(Codes, RoundedProductOfTiles,
                         testing::Values(GemmBf16Backend::avx512, GemmBf16Backend::emulated_tiles,
                                         GemmBf16Backend::amx),
                         bf16_backend_name);

// A product of NaN as large as any, so that what it leaves behind spoils one that reads it.
void leave_nan(GemmBf16Backend backend, Transposed transposed) {
  constexpr int64_t kSize = 544;
  const torch::Tensor x = torch::full({kSize, kSize}, std::numeric_limits<float>::quiet_NaN()),
                      c = torch::empty_like(x);
  gemm_bf16(backend, transposed, kSize, kSize, kSize, view(x), view(x), mutable_view(c), {});
}

TEST_P(RoundedProduct, IsThatOfRoundedOperands) {
  expect_products(
      shapes(), [](const torch::Tensor& x) { return x.to(torch::kBFloat16); },
      [](Transposed transposed, auto... given) {
        leave_nan(GetParam(), transposed);
        gemm_bf16(GetParam(), transposed, given...);
      });
}

TEST_P(RoundedProductOfTiles, OfATileIsThatTileOfTheProduct) {
  expect_tiles([](auto... given) { gemm_bf16(GetParam(), given...); });
}

TEST(ProductCodes, TheOneTakenIsOneThatRuns) {
  const auto rounded = gemm_bf16_backends();
  EXPECT_EQ(rounded.front(), GemmBf16Backend::float32);
  EXPECT_NE(std::ranges::find(rounded, gemm_bf16_backend()), rounded.end());
  const auto backends = gemm_backends();
  EXPECT_EQ(backends.front(), GemmBackend::blas);
  EXPECT_NE(std::ranges::find(backends, gemm_backend()), backends.end());
}

}  // namespace
}  // namespace lra::ops::cpu
