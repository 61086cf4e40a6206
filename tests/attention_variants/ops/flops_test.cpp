// Accounts of floating-point operations of operators with fixed landmarks and features, as numbers.
#include "tests/attention_variants/testing.h"

namespace lra::ops {
namespace {

// Of 3 samples of 2 heads of width 4.
int64_t flops(const char* attention, int64_t length) { return make(attention)->flops(3, length); }

TEST(Flops, OfFeaturesAreTheirProducts) {
  // φ(K)ᵀ [V, 1] and φ(Q) times it, by a multiplication and an addition.
  EXPECT_EQ(flops("linear", 37), 3 * 2 * 37 * 4 * 4 * (4 + 1));
  EXPECT_EQ(flops("linear[normalise=false]", 37), 3 * 2 * 37 * 4 * 4 * 4);
  EXPECT_EQ(flops("cosformer", 37), 3 * 2 * 37 * 4 * 8 * (4 + 1));
  // And Q Wᵀ, K Wᵀ.
  EXPECT_EQ(flops("performer[num_features=6]", 37), 3 * 2 * 37 * 4 * 6 * (4 + 4 + 1));
}

TEST(Flops, OfLandmarksAreTheirProductsAndTheIteration) {
  const char* spec = "nystrom[num_landmarks=8,conv_kernel_size=5,pinv_iterations=3]";
  EXPECT_EQ(flops(spec, 37),
            3 * 2 * (8 * 37 * 8 * 4 + 4 * 8 * 8 * 4 + 3 * 8 * 8 * 8 * 8 + 2 * 37 * 4 * 5));
  EXPECT_EQ(flops(spec, 8), 3 * 2 * (4 * 8 * 8 * 4 + 2 * 8 * 4 * 5)) << "tokens are landmarks";
  EXPECT_EQ(flops("nystrom[num_landmarks=8,pinv=exact]", 37), -1);
}

TEST(Flops, OfTheMovingAverageAreItsTapsToo) {
  // 16 modes to each side in 8 channels: a multiplication and an addition a lag, once for a batch.
  EXPECT_EQ(flops("mega[truncation=37]", 37) - flops("mega[truncation=4]", 37),
            2 * 2 * 8 * 16 * (37 - 4));
  EXPECT_EQ(flops("mega", 37), flops("mega[truncation=37]", 37));
}

}  // namespace
}  // namespace lra::ops
