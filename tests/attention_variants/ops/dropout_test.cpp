// Dropout against the Philox generator of LibTorch, and against what dropout promises.
#include "attention_variants/ops/dropout.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/core/PhiloxRNGEngine.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "attention_variants/ops/cpu/kernels/kernels.h"
#include "tests/attention_variants/testing.h"

namespace lra {
namespace {

torch::Tensor dropped(const torch::Tensor& x, double p, uint64_t seed = 5) {
  torch::manual_seed(seed);
  return ops::philox_dropout(x, p, /*training=*/true);
}

// Element 2 * w * 16 + l of the 128 of a block goes by the low half of word w of counter l, the one
// 16 further by the high half: kept where it is at least p * 2^16.
TEST(Dropout, KeepsByThePhiloxNumbersOfLibTorch) {
  for (const uint64_t seed : {uint64_t{0}, uint64_t{1}, uint64_t{0xdeadbeefcafef00d}}) {
    at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed);
    const uint64_t key = generator.get<at::CPUGeneratorImpl>()->random64();
    for (const double p : {0.1, 0.5, 40000.0 / 65536}) {
      const torch::Tensor y = dropped(torch::ones({3 * 128}), p, seed).ne(0);
      const bool* kept = y.const_data_ptr<bool>();
      for (size_t i = 0; i < 3 * 128; ++i) {
        const size_t block = i / 128, half = i % 128 / 16, lane = i % 16;
        at::Philox4_32 engine(key, /*subsequence=*/0, /*offset=*/block * 16 + lane);
        uint32_t word = engine();
        for (size_t w = 0; w < half / 2; ++w) word = engine();
        const uint32_t number = half % 2 == 0 ? word & 0xFFFF : word >> 16;
        EXPECT_EQ(kept[i], number >= std::lround(p * 65536))
            << "seed " << seed << " p " << p << " element " << i;
      }
    }
  }
}

TEST(Dropout, BitsAreTheSameByAnyInstructions) {
  for (const int64_t blocks : {1, 2, 7}) {
    for (const int64_t first : {int64_t{0}, int64_t{3}, (int64_t{1} << 28) - 2}) {
      const auto bits_of = [&](const ops::cpu::KernelTable& table) {
        std::vector<uint16_t> bits(static_cast<size_t>(blocks * ops::cpu::kDropoutHalves + 1), 7);
        table.philox_keep_bits(0x0123456789ABCDEF, first, blocks, 6554, bits.data());
        return bits;
      };
      const std::vector<uint16_t> plain = bits_of(*ops::cpu::kernel_tables().front());
      EXPECT_EQ(plain.back(), 7);
      for (const ops::cpu::KernelTable* const table : ops::cpu::kernel_tables())
        EXPECT_EQ(bits_of(*table), plain) << table->isa << ": " << blocks << " from " << first;
    }
  }
}

TEST(Dropout, KeepsTheStatedShareAndScalesIt) {
  for (const double p : {0.1, 0.5, 0.9}) {
    const int64_t n = 1 << 20;
    const torch::Tensor y = dropped(torch::ones({n}), p);
    const double kept = y.ne(0).sum().item<double>() / static_cast<double>(n);
    // Six standard deviations of a binomial share, and the rounding of p.
    EXPECT_NEAR(kept, 1 - p, 6 * std::sqrt(p * (1 - p) / static_cast<double>(n)) + 0x1p-17);
    const torch::Tensor values = y.masked_select(y.ne(0));
    EXPECT_EQ(values.min().item<float>(), values.max().item<float>());
    EXPECT_NEAR(values[0].item<double>(), 1 / (1 - p), 2e-3);
    EXPECT_NEAR(values[0].item<double>() * (1 - std::round(p * 65536) / 65536), 1, 1e-6);
  }
}

TEST(Dropout, IsTheSameForAnyNumberOfThreads) {
  const torch::Tensor x = torch::randn({3, 1001, 67});
  const RestoredThreads restored;
  at::set_num_threads(1);
  const torch::Tensor one = dropped(x, 0.3);
  for (const int threads : {2, 3, 7}) {
    at::set_num_threads(threads);
    EXPECT_TRUE(torch::equal(dropped(x, 0.3), one)) << threads;
  }
  EXPECT_FALSE(torch::equal(dropped(x, 0.3, /*seed=*/6), one));
  torch::manual_seed(5);
  ops::philox_dropout(x, 0.3, true);
  EXPECT_FALSE(torch::equal(ops::philox_dropout(x, 0.3, true), one)) << "a second call draws anew";
}

TEST(Dropout, GradientPassesWhereTheElementWasKept) {
  for (const auto type : {torch::kFloat, torch::kDouble, torch::kBFloat16}) {
    for (const int64_t n : {0, 1, 127, 128, 129, 5000}) {
      const torch::Tensor x = torch::rand({n}, torch::kDouble).add(1).to(type).requires_grad_();
      const torch::Tensor y = dropped(x, 0.25);
      ASSERT_EQ(y.scalar_type(), type);
      const torch::Tensor given = torch::rand({n}, torch::kDouble).add(1).to(type);
      y.backward(given);
      const torch::Tensor kept = y.ne(0);
      EXPECT_TRUE(torch::equal(x.grad().ne(0), kept)) << n;
      const torch::Tensor scaled = (given.to(torch::kDouble) / 0.75).to(type) * kept;
      EXPECT_TRUE(torch::allclose(x.grad(), scaled, 1e-6, 0)) << n;
      if (n == 5000) {
        EXPECT_GT(kept.sum().item<int64_t>(), 3000);
        EXPECT_LT(kept.sum().item<int64_t>(), n);
      }
    }
  }
}

TEST(Dropout, RoundsBfloat16ToTheNearest) {
  const torch::Tensor x = torch::randn({4096}).to(torch::kBFloat16);
  const torch::Tensor y = dropped(x, 0.25);
  const torch::Tensor exact = (x.to(torch::kFloat) * (1 / 0.75F)).to(torch::kBFloat16) * y.ne(0);
  EXPECT_TRUE(torch::equal(y, exact));
  const float infinity = std::numeric_limits<float>::infinity();
  const torch::Tensor odd =
      dropped(torch::tensor({infinity, -infinity, std::nanf("")}).to(torch::kBFloat16), 1e-4);
  EXPECT_TRUE(odd[0].isinf().item<bool>() && odd[1].isinf().item<bool>());
  EXPECT_TRUE(odd[2].isnan().item<bool>());
}

TEST(Dropout, MaskGoesByTheIndexAndNotByTheStrides) {
  const torch::Tensor x = torch::rand({40, 30}).add(1);
  const torch::Tensor strided = x.t().contiguous().t().requires_grad_();
  ASSERT_FALSE(strided.is_contiguous());
  const torch::Tensor y = dropped(strided, 0.5);
  EXPECT_TRUE(torch::equal(y, dropped(x, 0.5)));
  y.backward(torch::ones({30, 40}).t());
  EXPECT_TRUE(torch::equal(strided.grad().ne(0), y.ne(0)));
}

TEST(Dropout, LeavesEvaluationAlone) {
  const torch::Tensor x = torch::randn({10});
  EXPECT_TRUE(ops::philox_dropout(x, 0.5, /*training=*/false).is_same(x));
  EXPECT_TRUE(ops::philox_dropout(x, 0, /*training=*/true).is_same(x));
  EXPECT_EQ(ops::philox_dropout(x, 1, /*training=*/true).abs().max().item<float>(), 0);
  EXPECT_THROW(ops::philox_dropout(x, -0.1, true), c10::Error);
  EXPECT_THROW(ops::philox_dropout(x, 1.1, true), c10::Error);
  ops::Dropout module(0.5);
  module->eval();
  EXPECT_TRUE(module->forward(x).is_same(x));
  module->train();
  EXPECT_FALSE(torch::equal(module->forward(x), x));
}

// Parts of a batch, at the beginnings of blocks and within them, together are the whole: values,
// gradients, and the state of the generator of seeds.
TEST(Dropout, PartsOfABatchDropWhatTheWholeDoes) {
  for (const auto type : {torch::kFloat, torch::kDouble, torch::kBFloat16}) {
    for (const int64_t width : {1, 3, 64, 100, 384}) {
      const torch::Tensor x = torch::rand({7, 5, width}, torch::kDouble).add(1).to(type);
      torch::manual_seed(9);
      const torch::Tensor leaf = x.clone().requires_grad_();
      const torch::Tensor whole = ops::philox_dropout(leaf, 0.3, /*training=*/true);
      whole.sum().backward();
      const torch::Tensor second = ops::philox_dropout(x, 0.3, /*training=*/true);
      const torch::Tensor state = at::detail::getDefaultCPUGenerator().get_state();
      std::vector<torch::Tensor> values, gradients, seconds;
      for (const auto& [begin, end] : {std::pair{0, 3}, std::pair{3, 4}, std::pair{4, 7}}) {
        torch::manual_seed(1);  // is not what decides
        at::Generator seeds = at::make_generator<at::CPUGeneratorImpl>(uint64_t{9});
        const ops::BatchSlice part(begin, end - begin, seeds);
        const torch::Tensor piece = x.slice(0, begin, end).clone().requires_grad_();
        const torch::Tensor y = ops::philox_dropout(piece, 0.3, /*training=*/true);
        y.sum().backward();
        values.push_back(y);
        gradients.push_back(piece.grad());
        seconds.push_back(ops::philox_dropout(x.slice(0, begin, end), 0.3, /*training=*/true));
        EXPECT_TRUE(torch::equal(seeds.get_state(), state));
      }
      EXPECT_TRUE(torch::equal(torch::cat(values), whole)) << type << " " << width;
      EXPECT_TRUE(torch::equal(torch::cat(gradients), leaf.grad())) << type << " " << width;
      EXPECT_TRUE(torch::equal(torch::cat(seconds), second)) << type << " " << width;
    }
  }
  EXPECT_THROW(
      {
        const ops::BatchSlice part(0, 2, at::make_generator<at::CPUGeneratorImpl>());
        ops::philox_dropout(torch::ones({3, 5}), 0.5, /*training=*/true);
      },
      c10::Error)
      << "three rows are not of two samples";
}

}  // namespace
}  // namespace lra
