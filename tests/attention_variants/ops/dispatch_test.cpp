// Which implementation of an operator takes a call.
#include "attention_variants/ops/dispatch.h"

#include <gtest/gtest.h>

#include "attention_variants/ops/autocast.h"

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

TEST(Dispatch, TakesBFloat16WhereAutocastStoredIt) {
  using ops::is_cpu_stored;
  const torch::Tensor half = torch::empty({1}, torch::kBFloat16), whole = torch::empty({1}),
                      wide = torch::empty({1}, torch::kDouble);
  EXPECT_FALSE(is_cpu_stored(ops::Place::of(half)));
  EXPECT_TRUE(is_cpu_stored(ops::Place::of(whole)));
  const ops::AutocastScope autocast(torch::kCPU, ops::Dtype::bfloat16);
  EXPECT_TRUE(is_cpu_stored(ops::Place::of(half)));
  EXPECT_TRUE(is_cpu_stored(ops::Place::of(whole)));
  EXPECT_FALSE(is_cpu_stored(ops::Place::of(wide)));
  const c10::impl::ExcludeDispatchKeyGuard left(c10::autocast_dispatch_keyset);
  EXPECT_FALSE(is_cpu_stored(ops::Place::of(half)));
}

}  // namespace
}  // namespace lra
