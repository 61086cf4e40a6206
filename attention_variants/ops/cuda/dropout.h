// Dropouts as kernels are told them.
#pragma once

#include "attention_variants/ops/cuda/kernels/rows/params.h"
#include "attention_variants/ops/dropout.h"

namespace lra::ops::cuda {

inline DropoutStream stream_of(const DrawnDropout& drawn) {
  return {.seed = drawn.seed,
          .device_seed = drawn.device_seed,
          .threshold = drawn.threshold,
          .scale = static_cast<float>(dropout_scale(drawn.threshold)),
          .first = drawn.first};
}

}  // namespace lra::ops::cuda
