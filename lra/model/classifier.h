// What follows pooling, and how released models start.
#pragma once

#include <memory>
#include <vector>

#include "attention_variants/torch.h"
#include "lra/config/settings.h"
#include "lra/model/blocks/block.h"

namespace lra {

/// Of `inputs` pooled rows [B,D] to [B,classes].
torch::nn::Sequential make_classifier(const ModelOptions& options, int64_t inputs, int64_t classes);

/// Draws from torch's global generator what `init` says of weights [out,in] and biases:
///  flax   google-research/long-range-arena, lra_benchmarks/models/layers/common_layers.py and the
///         defaults of flax's Dense
///  mega   facebookresearch/mega, fairseq/modules/normalized_feedforward_network.py and
///         fairseq/models/lra/model.py
///  lecun  flax's Dense, as lindermanlab/S5, s5/layers.py and s5/seq_model.py
/// Init::torch leaves them as they are. Of attentions only flax changes anything: the projections.
void start_weights(Init init, const std::vector<std::unique_ptr<Block>>& layers,
                   torch::nn::Sequential& classifier);

}  // namespace lra
