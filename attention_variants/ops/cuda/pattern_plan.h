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

/// Those used last are kept, up to 256 MiB: a model asks for the same ones again and again, layer
/// by layer and length by length. A recording (SeedTape) keeps its own. Thread safe. Throws Error
/// where a pattern has more than 2^31 keys of queries, 64 at a time.
DevicePlan device_plan(const Patterns& patterns, int64_t length, torch::Device device);

}  // namespace lra::ops::cuda
