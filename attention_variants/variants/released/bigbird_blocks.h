// The random blocks that the releases of LRA and Skyformer draw for BigBird.
#pragma once

#include <cstdint>

#include "attention_variants/torch.h"

namespace lra::released {

/// Whose function draws. They differ in what the last two blocks but one draw from.
enum class BigbirdRelease { lra, skyformer };

struct BigbirdDraw {
  BigbirdRelease release = BigbirdRelease::lra;
  int64_t heads = 1, blocks = 0;
  int64_t random = 3;  // of a block
  int64_t range = 0;   // blocks that random ones lie among
  uint32_t seed = 0;
};

/// [H,blocks,random] by get_block_rand_mask() of
/// lra_benchmarks/models/bigbird/bigbird_attention.py, lines 24-66, and numpy.random.permutation()
/// (MT19937, shuffled from the end by rejected masks): the same numbers. Skyformer's copy
/// (src/models/attention_bigbird.py, lines 655-709) lets the last two blocks before the end draw
/// blocks that they see anyway. Among the first 2 random + 5 blocks of more, by the plan that
/// Skyformer's release has for such lengths (lines 711 on), in which a block draws for all heads in
/// turn. -1 for none: in the rows of the first and the last block, and where there are too few to
/// choose from, on which the release stops.
torch::Tensor bigbird_blocks(const BigbirdDraw& draw);

}  // namespace lra::released
