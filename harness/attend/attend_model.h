// A whole model on tensors from a file: what `lra attend --scope model` does, so that a paper's
// model can be held against the one that a protocol means.
#pragma once

#include "lra/config/protocol.h"
#include "lra/formats/safetensors.h"

namespace lra {

/// `in` holds tokens [B,N] int64 (of two inputs, or three channels, tokens1, tokens2 ...),
/// optionally mask [B,N] BOOL (mask1 and mask2; absent: as input.mask says), param.<name> for any
/// parameter or buffer, and grad_output [B,classes]. The result holds logits [B,classes] and, with
/// grad_output, grad.param.<name> of every parameter. The vocabulary and the classes are those of
/// param.tokens.weight and of the classifier's last weight where they are given, else the task's.
/// Computed in the type of grad_output where that is a floating-point one, else of the first
/// parameter, else float32, in evaluation mode. `config.seed` decides parameters that are not
/// given. Throws Error on a missing, unknown or misshapen tensor.
TensorFile attend_model(const Config& config, const TensorFile& in);

/// The length of the inputs in `in`; throws Error where there are none.
int64_t input_length(const TensorFile& in);

}  // namespace lra
