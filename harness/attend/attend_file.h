// One attention call on tensors from a file: what `lra attend` does, and how variants are compared
// with other implementations.
#pragma once

#include "attention_variants/registry.h"
#include "lra/formats/safetensors.h"

namespace lra {

/// What a protocol says of the place of an attention.
struct AttendPlace {
  PaddedRows padded_rows = PaddedRows::zero;
  bool masked = true;  // false: all positions are tokens, whatever the mask says
  Kernels kernels = Kernels::fused;
  bool causal = false;  // throws UsageError where the attention has no such form
};

/// `in` holds q, k, v [B,H,N,d] of one floating-point type, optionally mask [B,N] (BOOL; absent:
/// all are tokens), param.<name> for any parameter, buffer or table of the variant but the
/// projections, and grad_output [B,H,N,d]. The result holds output [B,H,N,d] and, with grad_output,
/// grad.q, grad.k, grad.v and grad.param.<name> of every parameter. Evaluation mode. `seed` decides
/// parameters that are not given. Throws Error on a missing, unknown or misshapen tensor.
TensorFile attend_file(const AttentionSpec& spec, const TensorFile& in, uint64_t seed = 0,
                       const AttendPlace& place = {});

}  // namespace lra
