// Which elements a dropout keeps, as bits, and the elements kept.
#pragma once

#include <cstdint>

#include "attention_variants/ops/cpu/kernels/rows/isa.h"
#include "attention_variants/ops/types.h"

namespace lra::ops::cpu {

/// Counters that are computed side by side, and the elements they serve: 8 halves of 4 words each.
/// Element 16 h + l of a block is kept where half h of counter l is at least a threshold; bit
/// l of the block's number h says so.
inline constexpr int64_t kDropoutLanes = 16, kDropoutHalves = 8,
                         kDropoutBlock = kDropoutHalves * kDropoutLanes;

}  // namespace lra::ops::cpu

namespace lra::ops::LRA_KERNELS {

/// Writes the bits [8 blocks] of blocks of philox() under key `seed`.
void philox_keep_bits(uint64_t seed, int64_t first_block, int64_t blocks, uint32_t threshold,
                      uint16_t* bits);

/// y [count] = x * scale where the element is kept, else 0, of blocks and a tail; y may be x. The
/// third is of bfloat16.
void apply_keep_bits(const float* x, float* y, const uint16_t* bits, int64_t count, float scale);
void apply_keep_bits(const double* x, double* y, const uint16_t* bits, int64_t count, double scale);
void apply_keep_bits(const uint16_t* x, uint16_t* y, const uint16_t* bits, int64_t count,
                     float scale);

}  // namespace lra::ops::LRA_KERNELS
