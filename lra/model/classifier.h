// What follows pooling, and how LRA's released models start.
#pragma once

#include <memory>
#include <vector>

#include "attention_variants/torch.h"
#include "lra/config/settings.h"
#include "lra/model/blocks/block.h"

namespace lra {

/// Of `inputs` pooled rows [B,D] to [B,classes].
torch::nn::Sequential make_classifier(const ModelOptions& options, int64_t inputs, int64_t classes);

/// Init::flax, from torch's global generator: google-research/long-range-arena,
/// lra_benchmarks/models/layers/common_layers.py and the defaults of flax's Dense.
void start_as_flax(const std::vector<std::unique_ptr<Block>>& layers,
                   torch::nn::Sequential& classifier);

}  // namespace lra
