// What operators are told, and the loops under them too: no LibTorch.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace lra::ops {

/// Which arithmetic runs where there is a choice.
enum class Kernels {
  fused,      // own kernels where there is one for the device and the type; the default
  reference,  // LibTorch's operators alone, to compare with
};
constexpr auto names(Kernels) { return std::array{"fused", "reference"}; }

/// What an attention gives for padded positions.
enum class PaddedRows {
  zero,
  uniform,  // what an added -1e10 for every key makes of them, as released code does: see
            // uniform_attention(). Of variants that say so; others stay at zero
};
constexpr auto names(PaddedRows) { return std::array{"zero", "uniform"}; }

/// x Φ(x), or its approximation by a hyperbolic tangent (Hendrycks & Gimpel, arXiv 2016).
enum class Gelu { exact, tanh };
constexpr auto names(Gelu) { return std::array{"exact", "tanh"}; }

/// What the sum of a segment's rows is divided by for a landmark of nystrom.
enum class SegmentMeanOver {
  tokens,     // how many of its positions are tokens; the mean of none is zero
  positions,  // how many positions it has: padding counts, as zeros
};

/// Number types that programs run in; bfloat16 by autocast where there are parameters in float32.
enum class Dtype { float32, float64, bfloat16 };
constexpr auto names(Dtype) { return std::array{"float32", "float64", "bfloat16"}; }

/// Features of linear attention.
enum class FeatureMap {
  elu,     // φ(x) = elu(x) + 1, as wide as x (Katharopoulos et al., ICML 2020)
  cosine,  // [relu(x) sin θ, relu(x) cos θ] with the position's θ (Qin et al., ICLR 2022)
  relu,    // relu(W x) + offset
  softmax,  // exp(W x - norm ‖x‖² - c) + offset (Choromanski et al., ICLR 2021); c is the largest
            // W x, of a query over its features, of the keys over features and positions
};

/// Where the keys' c of FeatureMap::softmax is the largest: over a sample's and head's positions,
/// or over those of all the batch's samples and heads, and where padding counts (count_padding)
/// over padded ones too.
enum class KeyMax { sample, batch };
constexpr auto names(KeyMax) { return std::array{"sample", "batch"}; }

/// Whether c is differentiated.
enum class MaxGradient { attached, detached };
constexpr auto names(MaxGradient) { return std::array{"attached", "detached"}; }

/// Scores of a query x_i and a key x_j of hashed attention: x_i·x_j times
enum class KeyScale : int {
  rms,   // 1 / (√d √(mean of x_j² + 1e-6))
  unit,  // 1 / (√d ‖x_j‖)
};
constexpr auto names(KeyScale) { return std::array{"rms", "unit"}; }

/// Scores of hashed attention of a padded key, and of a token with itself: above padding, below all
/// else.
inline constexpr float kPaddedScore = -1e9F, kSelfScore = -1e5F;

/// Positions [begin, end).
struct KeyRange {
  int64_t begin = 0, end = 0;
};

struct SparsityTile {
  KeyRange queries;
  /// What they see; a range given twice counts twice.
  std::vector<KeyRange> keys;
  /// The first `unbounded` ranges are seen whole, the others, which must ascend, within the bounds.
  int64_t unbounded = 0;
};

/// Which keys each query of a head sees. Every query is in one tile.
struct SparsityPattern {
  std::vector<SparsityTile> tiles;
  /// Of a query i in bounded ranges: keys i - before to i + after.
  int64_t before = INT32_MAX, after = INT32_MAX;
};

/// What kept elements of a dropout are multiplied with, where `threshold` of 65536 are dropped.
[[gnu::always_inline]] inline double dropout_scale(uint32_t threshold) {
  return 65536.0 / (65536.0 - threshold);
}

/// Queries that share a block of a dropout of attention weights, which has as many elements.
inline constexpr int64_t kWeightDropoutTile = 128;

}  // namespace lra::ops
