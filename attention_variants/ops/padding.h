// How a mask [B,N], true = a token, enters: what stands at padded positions is replaced, never
// multiplied by zero, which would keep NaN and infinity.
#pragma once

#include "attention_variants/torch.h"

namespace lra::ops {

/// mask [B,N], with the rows that are false throughout made true.
torch::Tensor nonempty_rows(const torch::Tensor& mask);

/// x [B,H,N,d] with the rows of padded positions (mask [B,N] false) zeroed, whatever stood there.
torch::Tensor zero_padding(const torch::Tensor& x, const torch::Tensor& mask);

/// The same for a fresh result that nobody else holds: in place where autograd does not need the
/// old values.
torch::Tensor zero_padded_rows(torch::Tensor fresh, const torch::Tensor& mask);

}  // namespace lra::ops
