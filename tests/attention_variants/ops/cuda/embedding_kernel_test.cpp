// The kernels of embeddings, emulated, against float64.
#include "attention_variants/ops/cuda/kernels/rows/embedding.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <vector>

#include "attention_variants/ops/cuda/kernels/rows/sum_parts.h"
#include "tests/attention_variants/ops/cuda/numbers.h"

namespace lra::ops::cuda {
namespace {

using emulator::Array;

struct EmbeddingKernelCase {
  int batch, tokens, width, vocabulary;  // B, N, D, V
  bool first = false, masked = true;
  uint32_t threshold = 6554;
  int64_t from = 0;  // of the dropout
  Storage storage = Storage::f32;
};
void PrintTo(const EmbeddingKernelCase& c, std::ostream* to) {
  *to << fmt::format("{}x{}x{}, {} tokens, first vector {}, mask {}, {} dropped from {} on, {}",
                     c.batch, c.tokens, c.width, c.vocabulary, c.first, c.masked, c.threshold,
                     c.from, c.storage == Storage::f32 ? "f32" : "bf16");
}

constexpr uint64_t kEmbeddingSeed = 0xFEDCBA9876543210;

class EmbeddingRun {
 public:
  explicit EmbeddingRun(const EmbeddingKernelCase& of)
      : c(of),
        length(of.tokens + (of.first ? 1 : 0)),
        mask(some_mask(of.batch, of.tokens)),
        given_mask(mask),
        ids(int64_t{of.batch} * of.tokens),
        tokens(random_numbers(of.storage, int64_t{of.vocabulary} * of.width, 1)),
        positions(random_numbers(of.storage, int64_t{length} * of.width, 2)),
        first(random_numbers(of.storage, of.width, 3)),
        grad(random_numbers(of.storage, count(), 4)),
        y(of.storage, count()),
        parts(int64_t{embedding_parts(length)} * of.vocabulary * of.width),
        grad_positions(int64_t{length} * of.width),
        grad_first(of.width),
        grad_tokens(int64_t{of.vocabulary} * of.width) {
    for (int64_t i = 0; i < ids.size(); ++i) {
      const bool padding = c.masked && !mask[static_cast<size_t>(i)];
      ids[i] = padding ? INT64_MIN : i * i % 7 * i % c.vocabulary;
    }
    for (int64_t e = 0; e < count(); ++e) {
      if (!real(e / c.width)) grad.set(e, kNan);
    }
  }

  int64_t count() const { return int64_t{c.batch} * length * c.width; }
  // Of row b * L + l.
  bool is_first(int64_t row) const { return c.first && row % length == 0; }
  int64_t place(int64_t row) const {
    return row / length * c.tokens + row % length - (c.first ? 1 : 0);
  }
  bool real(int64_t row) const {
    return is_first(row) || !c.masked || mask[static_cast<size_t>(place(row))];
  }
  double factor(int64_t e) const {
    if (!real(e / c.width) || !dropout_keeps(kEmbeddingSeed, c.threshold, c.from + e)) return 0;
    return 65536.0 / (65536 - c.threshold);
  }

  void run() {
    const EmbeddingParams p{.storage = c.storage,
                            .batch = c.batch,
                            .length = length,
                            .width = c.width,
                            .vocabulary = c.vocabulary,
                            .ids = ids.data(),
                            .mask = c.masked ? given_mask.data() : nullptr,
                            .tokens = tokens.data(),
                            .positions = positions.data(),
                            .has_first = c.first,
                            .first = first.data(),
                            .dropout = {.seed = kEmbeddingSeed,
                                        .threshold = c.threshold,
                                        .scale = 65536.0F / static_cast<float>(65536 - c.threshold),
                                        .first = c.from},
                            .y = y.data(),
                            .grad_y = grad.data(),
                            .token_parts = parts.data(),
                            .grad_positions = grad_positions.data(),
                            .grad_first = c.first ? grad_first.data() : nullptr};
    launch_embedding_forward(p, nullptr);
    launch_embedding_backward(p, nullptr);
    launch_sum_parts({.first = {.parts = parts.data(),
                                .count = embedding_parts(length),
                                .columns = grad_tokens.size(),
                                .sum = grad_tokens.data()},
                      .second = {}},
                     nullptr);
    parts.check_zones();
  }

  EmbeddingKernelCase c;
  int length;  // L
  std::vector<bool> mask;
  Array<bool> given_mask;
  Array<int64_t> ids;
  Numbers tokens, positions, first, grad, y;
  Array<float> parts, grad_positions, grad_first, grad_tokens;
};

class EmbeddingKernels : public testing::TestWithParam<EmbeddingKernelCase> {};

TEST_P(EmbeddingKernels, AreTheSumsAndTheirGradients) {
  EmbeddingRun run(GetParam());
  const EmbeddingKernelCase& c = run.c;
  run.run();
  std::vector<double> y, of_tokens(static_cast<size_t>(c.vocabulary * c.width)),
      of_positions(static_cast<size_t>(run.length * c.width)),
      of_first(static_cast<size_t>(c.width));
  for (int64_t e = 0; e < run.count(); ++e) {
    const int64_t row = e / c.width, column = e % c.width, l = row % run.length;
    if (!run.real(row)) {
      y.push_back(0);
      continue;
    }
    const double by = run.factor(e), grad = by * run.grad[e];
    const int64_t at = run.is_first(row) ? column : run.ids[run.place(row)] * c.width + column;
    y.push_back(by * (run.positions[l * c.width + column] +
                      (run.is_first(row) ? run.first[at] : run.tokens[at])));
    (run.is_first(row) ? of_first : of_tokens)[static_cast<size_t>(at)] += grad;
    of_positions[static_cast<size_t>(l * c.width + column)] += grad;
  }
  expect_near(run.y, y, c.storage);
  expect_near(run.grad_tokens, of_tokens, Storage::f32);
  expect_near(run.grad_positions, of_positions, Storage::f32);
  if (c.first) expect_near(run.grad_first, of_first, Storage::f32);
}

TEST(EmbeddingKernels, AreTheSameInEveryOrder) {
  EXPECT_TRUE(emulator::same_in_every_order([] {
    EmbeddingRun run({.batch = 3, .tokens = 20, .width = 40, .vocabulary = 5, .first = true});
    run.run();
    std::vector<float> all = run.y.values();
    for (const Array<float>* of : {&run.grad_tokens, &run.grad_positions, &run.grad_first})
      all.insert(all.end(), of->begin(), of->end());
    return all;
  }));
}

TEST(EmbeddingKernels, GiveNanForWhatIsNoToken) {
  EmbeddingRun run({.batch = 1, .tokens = 4, .width = 3, .vocabulary = 5, .threshold = 0});
  run.ids[1] = 5;
  run.ids[2] = -1;
  run.run();
  for (int64_t e = 0; e < run.count(); ++e)
    EXPECT_EQ(std::isnan(run.y[e]), e / 3 == 1 || e / 3 == 2) << e;
  for (const float x : run.grad_tokens) EXPECT_FALSE(std::isnan(x));
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, EmbeddingKernels,
    testing::Values(EmbeddingKernelCase{1, 1, 1, 1}, EmbeddingKernelCase{3, 19, 64, 20},
                    EmbeddingKernelCase{5, 9, 33, 260, true, true, 30000, 130},
                    EmbeddingKernelCase{3, 12, 16, 7, true, false, 0},
                    EmbeddingKernelCase{3, 19, 64, 20, false, true, 6554, 0, Storage::bf16}));
INSTANTIATE_TEST_SUITE_P(SlowShapes, EmbeddingKernels,
                         testing::Values(EmbeddingKernelCase{2, 3000, 8, 20},
                                         EmbeddingKernelCase{33, 50, 128, kMostEmbeddedTokens}));

}  // namespace
}  // namespace lra::ops::cuda
