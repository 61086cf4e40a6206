// The cost of an attention layer.
#pragma once

#include <cstdint>

#include "attention_variants/attention.h"

namespace lra {

/// Floating-point operations of one forward() of an attention layer on [batch,length,D]: those of
/// attend(), and two a weight of the projections for each position. -1 where the variant has no
/// account.
int64_t layer_flops(const Attention& attention, int64_t batch, int64_t length);

}  // namespace lra
