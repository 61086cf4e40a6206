// Memory of every variant that says it is linear: at the allocator, in inference and in training.
#include "tests/attention_variants/testing.h"

namespace lra {
namespace {

std::vector<std::string> linear_variants() {
  std::vector<std::string> names;
  for (const AttentionEntry* entry : attention_entries()) {
    if (entry->info.linear) names.push_back(entry->info.name);
  }
  return names;
}

class Growth : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Linear, Growth, testing::ValuesIn(linear_variants()),
                         [](const auto& of) { return of.param; });

// Peak of one call at 2 heads of 32 and length n; in training, forward and backward.
int64_t peak_at(const std::string& spec, int64_t n, bool training) {
  const AttentionContext context{
      .width = 64, .heads = 2, .head_dim = 32, .max_length = n, .seed = 0};
  try {
    return attend_peak(spec, context, 1, training);
  } catch (const Unsupported&) {  // no form without projections
    const auto attention = make(spec, torch::kFloat, context);
    const torch::Tensor x = torch::randn({1, n, 64}).set_requires_grad(training);
    const torch::Tensor gradient = torch::ones_like(x), mask = length_mask({n}, n);
    return peak_bytes([&] {
      torch::AutoGradMode grad(training);
      torch::Tensor out = attention->forward(x, mask);
      if (training) out.backward(gradient);
    });
  }
}

TEST_P(Growth, AtMostTwoPointTwoPerDoubling) {
  for (const bool training : {false, true}) {
    const double half = static_cast<double>(peak_at(GetParam(), 4096, training)),
                 full = static_cast<double>(peak_at(GetParam(), 8192, training));
    EXPECT_LE(full / half, 2.2) << (training ? "training" : "inference");
    EXPECT_GT(full / half, 1.2) << "not the memory of the positions that was measured";
  }
}

// The measurement sees a quadratic variant.
TEST(Growth, OfAMaterializedMatrixIsFourfold) {
  const std::string spec = "standard[implementation=materialized]";
  EXPECT_GT(static_cast<double>(peak_at(spec, 2048, false)) /
                static_cast<double>(peak_at(spec, 1024, false)),
            3.5);
}

}  // namespace
}  // namespace lra
