// Sums over rows by two kernels, emulated, against float64.
#include "attention_variants/ops/cuda/kernels/rows/sum_parts.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "attention_variants/ops/cuda/kernel_table.h"
#include "attention_variants/ops/cuda/kernels/rows/dropout_rows.h"
#include "tests/attention_variants/ops/cuda/numbers.h"

namespace lra::ops::cuda {
namespace {

using emulator::Array;

// Neither rows nor columns are multiples of what a block has.
TEST(SumPartsKernelTest, AddUpTheColumns) {
  for (const Storage storage : {Storage::f32, Storage::bf16}) {
    for (const auto& [rows, columns] : {std::pair{1, 1}, {16, 128}, {33, 192}, {50, 130}}) {
      SCOPED_TRACE(fmt::format("{} x {}", rows, columns));
      Numbers x = random_numbers(storage, int64_t{rows} * columns, 1);
      std::vector<double> expected(static_cast<size_t>(columns));
      for (int64_t i = 0; i < int64_t{rows} * columns; ++i)
        expected[static_cast<size_t>(i % columns)] += x[i];
      const auto sums = [&] {
        const int64_t count = dropout_rows_parts(rows);
        Array<float> parts(count * columns), sum(columns);
        lra_cuda_kernels()->column_parts({.storage = storage,
                                          .x = x.data(),
                                          .rows = rows,
                                          .columns = columns,
                                          .parts = parts.data()},
                                         nullptr);
        lra_cuda_kernels()->sum_parts({.first = {.parts = parts.data(),
                                                 .count = count,
                                                 .columns = columns,
                                                 .sum = sum.data()},
                                       .second = {}},
                                      nullptr);
        return sum;
      };
      EXPECT_TRUE(emulator::same_in_every_order(sums));
      const Array<float> found = sums();
      expect_near(found, expected, Storage::f32, 8, std::sqrt(rows));
    }
  }
}

}  // namespace
}  // namespace lra::ops::cuda
