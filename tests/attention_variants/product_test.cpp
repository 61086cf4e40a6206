// Products of small matrices, by every code that this processor runs, against float64.
#include "attention_variants/kernels/cpu/product.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "attention_variants/torch.h"

namespace lra::cpu {
namespace {

class Product : public testing::TestWithParam<ProductCode> {
 protected:
  void SetUp() override {
    const auto codes = product_codes();
    if (std::ranges::find(codes, GetParam()) == codes.end())
      GTEST_SKIP() << "this processor has no instructions for " << name_of(GetParam());
    torch::manual_seed(4);
  }

  // Columns of wider tensors, so that rows do not follow each other.
  static torch::Tensor draw(int64_t rows, int64_t columns) {
    return torch::randn({rows, columns + 3}).narrow(1, 0, columns);
  }
  static ConstMatrix view(const torch::Tensor& x) {
    return {x.const_data_ptr<float>(), x.stride(0)};
  }
  static Matrix mutable_view(const torch::Tensor& x) {
    return {x.mutable_data_ptr<float>(), x.stride(0)};
  }
};

std::string code_name(const testing::TestParamInfo<ProductCode>& code) {
  return name_of(code.param);
}

INSTANTIATE_TEST_SUITE_P(Codes, Product,
                         testing::Values(ProductCode::blas, ProductCode::avx2, ProductCode::avx512),
                         code_name);

// BLAS promises less.
class ProductByRegisters : public Product {};

INSTANTIATE_TEST_SUITE_P(Codes, ProductByRegisters,
                         testing::Values(ProductCode::avx2, ProductCode::avx512), code_name);

// |error| is at most `terms` roundings of what is added up, of absolute values.
TEST_P(Product, IsThatOfFloat64ForAnyShapeAndScale) {
  std::vector<std::array<int64_t, 3>> shapes = {{64, 64, 64}, {256, 256, 32}, {64, 32, 300},
                                                {7, 33, 513}, {100, 17, 256}, {23, 129, 257},
                                                {13, 100, 1}, {1, 1, 1},      {5, 6, 0}};
  for (int64_t m = 1; m <= 26; ++m) shapes.push_back({m, 3 * m + 1, m % 5 + 1});
  for (const auto& [m, n, k] : shapes) {
    for (const auto transposed : {Transposed::none, Transposed::a, Transposed::b}) {
      for (const Scale scale :
           {Scale{}, Scale{.product = 0.25F}, Scale{.product = -2, .old = 1}, Scale{.old = 0.5F}}) {
        const bool ta = transposed == Transposed::a, tb = transposed == Transposed::b;
        const torch::Tensor a = draw(ta ? k : m, ta ? m : k), b = draw(tb ? n : k, tb ? k : n),
                            whole = torch::randn({m, n + 3}), before = whole.clone(),
                            c = whole.narrow(1, 0, n);
        if (scale.old == 0) c.fill_(std::numeric_limits<float>::quiet_NaN());
        multiply_by(GetParam(), transposed, m, n, k, view(a), view(b), mutable_view(c), scale);
        const auto left = (ta ? a.t() : a).to(torch::kDouble),
                   right = (tb ? b.t() : b).to(torch::kDouble),
                   old = scale.old * before.narrow(1, 0, n).to(torch::kDouble);
        const auto exact = scale.product * torch::matmul(left, right) + old;
        const auto size =
            std::abs(scale.product) * torch::matmul(left.abs(), right.abs()) + old.abs();
        const auto error = (c.to(torch::kDouble) - exact).abs();
        EXPECT_TRUE(error.le(0x1p-24 * static_cast<double>(k + 2) * size).all().item<bool>())
            << m << " x " << n << " x " << k << ", transposed " << static_cast<int>(transposed)
            << ", scale " << scale.product << " and " << scale.old;
        EXPECT_TRUE(torch::equal(whole.narrow(1, n, 3), before.narrow(1, n, 3)))
            << "what stands beside c";
      }
    }
  }
}

// Where a sample stands in a batch, and how its rows are cut into tiles, changes no bit.
TEST_P(ProductByRegisters, OfATileIsThatTileOfTheProduct) {
  const int64_t m = 45, n = 83, k = 70;
  const torch::Tensor a = draw(m, k), b = draw(k, n), c = torch::empty({m, n});
  const auto product = [&](const torch::Tensor& left, const torch::Tensor& right) {
    const torch::Tensor out = torch::empty({left.size(0), right.size(1)});
    multiply_by(GetParam(), Transposed::none, left.size(0), right.size(1), k, view(left),
                view(right), mutable_view(out), {});
    return out;
  };
  const torch::Tensor whole = product(a, b);
  for (const int64_t first : {0, 1, 7, 31, 44}) {
    for (const int64_t count : {1, 3, 12, 14}) {
      const int64_t rows = std::min(count, m - first);
      EXPECT_TRUE(torch::equal(product(a.narrow(0, first, rows), b), whole.narrow(0, first, rows)))
          << first << " " << rows;
      EXPECT_TRUE(
          torch::equal(product(a, b.narrow(1, first, count)), whole.narrow(1, first, count)))
          << first << " " << count;
    }
  }
}

TEST(ProductCodes, TheOneTakenIsOneThatRuns) {
  const auto codes = product_codes();
  EXPECT_EQ(codes.front(), ProductCode::blas);
  EXPECT_NE(std::ranges::find(codes, product_code()), codes.end());
}

}  // namespace
}  // namespace lra::cpu
