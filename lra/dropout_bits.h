// Which elements a dropout keeps, as bits.
#pragma once

#include <cstdint>

namespace lra::dropout {

/// Counters that are computed side by side, and the elements they serve: 8 halves of 4 words each.
/// Element h * kLanes + l of a block is kept where half h of counter l is at least a threshold; bit
/// l of the block's number h says so.
inline constexpr int64_t kLanes = 16, kHalves = 8, kBlock = kHalves * kLanes;

/// Writes the bits [blocks * kHalves] of blocks of philox() under key `seed`.
void draw_bits(uint64_t seed, int64_t first_block, int64_t blocks, uint32_t threshold,
               uint16_t* bits);

/// The same without the instructions that a processor may lack.
void draw_bits_anywhere(uint64_t seed, int64_t first_block, int64_t blocks, uint32_t threshold,
                        uint16_t* bits);

}  // namespace lra::dropout
