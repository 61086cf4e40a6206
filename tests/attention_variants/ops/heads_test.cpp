// How results and gradients of the kernels that go head by head lie in memory.
#include <gtest/gtest.h>

#include <vector>

#include "attention_variants/ops/cpu/heads.h"
#include "tests/attention_variants/testing.h"

namespace lra {
namespace {

// Autograd copies a gradient that is not, and what joins the heads copies a result that is not.
TEST(Heads, ResultsAndGradientsAreLaidOutAsWhatTheyAreOf) {
  for (const char* spec : {"standard", "nystrom[num_landmarks=8]", "linformer[projected_length=8]",
                           "linear", "performer", "cosformer", "longformer[window=8]"}) {
    const auto attention = make(
        spec, torch::kFloat, {.width = 24, .heads = 3, .head_dim = 8, .max_length = 64, .seed = 1});
    for (const bool joined : {false, true}) {
      std::vector<torch::Tensor> leaves;
      for (int i = 0; i < 3; ++i) {
        leaves.push_back(joined ? torch::randn({2, 64, 3, 8}).transpose(1, 2)
                                : torch::randn({2, 3, 64, 8}));
        leaves.back().requires_grad_();
      }
      const torch::Tensor out =
          attention->attend(leaves[0], leaves[1], leaves[2], torch::ones({2, 64}, torch::kBool));
      EXPECT_EQ(out.strides(), leaves[0].strides()) << spec;
      const auto gradients = torch::autograd::grad({out}, leaves, {torch::randn_like(out)});
      for (size_t i = 0; i < leaves.size(); ++i)
        EXPECT_EQ(gradients[i].strides(), leaves[i].strides()) << spec << ", " << i;
    }
  }
}

// z.conj().imag is a view of the opposite numbers, with a bit that says so.
TEST(Heads, NegatedViewsAreTheirValues) {
  const auto view_of = [](at::IntArrayRef sizes) {
    const torch::Tensor view = at::imag(torch::randn(sizes, torch::kComplexFloat).conj());
    EXPECT_TRUE(view.is_neg());
    return view;
  };
  for (const char* spec : {"standard", "nystrom[num_landmarks=8]", "linformer[projected_length=8]",
                           "linear", "performer", "cosformer", "longformer[window=8]"}) {
    const auto attention = make(
        spec, torch::kFloat, {.width = 3, .heads = 3, .head_dim = 1, .max_length = 64, .seed = 1});
    std::vector<torch::Tensor> views, plain;
    for (int i = 0; i < 4; ++i) {
      views.push_back(view_of({2, 3, 64, 1}));
      plain.push_back(views.back().resolve_neg().clone());
    }
    const auto results = [&](std::vector<torch::Tensor> of) {
      for (size_t i = 0; i < 3; ++i) of[i] = of[i].detach().requires_grad_();
      const torch::Tensor out =
          attention->attend(of[0], of[1], of[2], torch::ones({2, 64}, torch::kBool));
      auto all = torch::autograd::grad({out}, {of[0], of[1], of[2]}, {of[3]});
      all.push_back(out);
      return all;
    };
    const auto own = results(views), expected = results(plain);
    for (size_t i = 0; i < own.size(); ++i)
      EXPECT_TRUE(torch::equal(own[i], expected[i])) << spec << ", " << i;
  }
}

// BLAS takes no row stride below the width, though a single row has no next one.
TEST(Heads, RowsKeepTheirDistanceWhereThereIsOne) {
  const torch::Tensor columns = torch::randn({2, 3, 8, 1}).transpose(2, 3);  // [B,H,1,d]
  ASSERT_EQ(columns.stride(2), 1);
  const torch::Tensor rows = ops::with_contiguous_rows(columns);
  EXPECT_GE(rows.stride(2), 8);
  EXPECT_TRUE(torch::equal(rows, columns));
  // Nor one of more than 31 bits.
  const auto far = [](int64_t stride) {
    return torch::empty_strided({1, 1, 2, 8}, {2 * stride, 2 * stride, stride, 1},
                                torch::TensorOptions().device(torch::kMeta));
  };
  EXPECT_EQ(ops::with_contiguous_rows(far(INT32_MAX)).stride(2), INT32_MAX);
  EXPECT_EQ(ops::with_contiguous_rows(far(int64_t{INT32_MAX} + 1)).stride(2), 8);
}

}  // namespace
}  // namespace lra
