// Patterns of block-sparse attention as lists of tiles that kernels read.
#pragma once

#include <cstdint>
#include <vector>

#include "attention_variants/ops/block_sparse_attention.h"
#include "attention_variants/ops/cuda/kernels/heads/block_sparse_attention.h"

namespace lra::ops::cuda {

/// The arrays of a PatternPlan. Every position is in one tile of queries and in one tile of keys,
/// seen or not.
struct PatternLists {
  std::vector<PatternHead> heads;
  std::vector<QueryTile> query_tiles;
  std::vector<int32_t> keys;
  std::vector<KeyTile> key_tiles;
  std::vector<int32_t> positions;
  std::vector<QueryPart> parts;
};

PatternLists pattern_lists(const Patterns& patterns, int64_t length);

/// The lists in one tensor on a device, and where they begin in it.
struct DevicePlan {
  torch::Tensor lists;  // int32
  PatternPlan plan;
};

/// Those of the last few patterns are kept: a model asks for the same ones again and again. Thread
/// safe.
DevicePlan device_plan(const Patterns& patterns, int64_t length, torch::Device device);

}  // namespace lra::ops::cuda
