// One cell of the memory and time tables.
#pragma once

#include <torch/torch.h>

#include <string>

#include "attention_variants/attention.h"
#include "harness/measure.h"
#include "results/records.h"

namespace lra {

/// What is measured: `core` is attend(q, k, v, mask), `module` forward(x, mask) with its
/// projections, `model` the whole model of a protocol; `training` is forward and backward (for
/// `model` with the optimizer's step).
struct ProfileCell {
  AttentionSpec attention;
  int64_t length = 512, batch = 1, heads = 2, head_dim = 32;
  std::string scope = "core", mode = "inference", dtype = "float32";
  std::string protocol = "lra-strict", task;  // of scope model
};

/// Measures one cell. What cannot run is a record with its status and reason: "oom" beyond
/// `memory_limit` bytes of tensors (0 = none), "unsupported" where the variant refuses the shape,
/// "crash" for other errors. All tokens are real; inputs are standard normal.
Profile profile_cell(const ProfileCell& cell, torch::Device device, int64_t threads,
                     int64_t memory_limit, const MeasureLimits& limits);

}  // namespace lra
