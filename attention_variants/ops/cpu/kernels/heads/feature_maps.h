// The feature maps of linear_attention.h on a tile of positions in cache, forward and backward.
// What is called e here is φ without its offset.
#pragma once

#include "attention_variants/ops/cpu/kernels/heads/linear_attention.h"

namespace lra::ops::cpu {

struct FeatureTile {
  ConstMatrix x;  // [rows,d]
  int64_t rows = 0;
  const float* phases = nullptr;  // [rows,2], of cosine
  float* e = nullptr;             // [rows,f]
};

/// The gradient of e [rows,f]: grad + weight * row, a weight a row (null: 1). `grad` is written
/// over.
struct FeatureGradient {
  float* grad = nullptr;           // [rows,f]
  const float* weights = nullptr;  // [rows]
  const float* row = nullptr;      // [f]
};

}  // namespace lra::ops::cpu

namespace lra::ops::LRA_KERNELS {

/// Writes Wᵀ to w [d,f], where the map has a projection.
void prepare_projection(const LinearHeadShape& shape, Matrix w);

/// e = W x, given that, where the map has a projection.
void project(const LinearHeadShape& shape, ConstMatrix w, const FeatureTile& tile);

/// Of e [rows,f], given project(), over the rows where `seen` is true (null = all).
Largest largest_of(const float* e, const bool* seen, int64_t rows, int64_t features);

/// e of keys, given project(); 0 in rows where `seen` is false. `largest` is c of softmax.
void key_features(const LinearHeadShape& shape, const FeatureTile& tile, const bool* seen,
                  float largest);

/// e of queries, given project(). Where it is not null, `largest` [rows] gets the number of each
/// row's largest feature, of softmax.
void query_features(const LinearHeadShape& shape, const FeatureTile& tile, float* largest);

/// Writes grad_x [rows,d]. With `largest`, of query_features(), c is each row's own and is
/// differentiated; else it is not, and minus its gradient is returned.
float features_backward(const LinearHeadShape& shape, const FeatureTile& tile,
                        const FeatureGradient& gradient, const float* largest, Matrix grad_x);

}  // namespace lra::ops::LRA_KERNELS
