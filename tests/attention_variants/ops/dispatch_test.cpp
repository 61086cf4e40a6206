// Which implementation of an operator takes a call.
#include "attention_variants/ops/dispatch.h"

#include <gtest/gtest.h>

namespace lra {
namespace {

using ops::Kernels;

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

}  // namespace
}  // namespace lra
