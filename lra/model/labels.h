// Where the labels of a batch stand, and what stands there.
#pragma once

#include "attention_variants/torch.h"

namespace lra {

/// Of labels [B,N] or [B,inputs,N], -1 = none, the places [L] int64 of those there are, of all
/// positions counted through; undefined of labels [B]: what Model::forward() takes.
inline torch::Tensor label_places(const torch::Tensor& labels) {
  return labels.dim() == 1 ? torch::Tensor() : labels.flatten().ge(0).nonzero().squeeze(1);
}

/// The labels at those places [L], or [B] as they are.
inline torch::Tensor labels_at(const torch::Tensor& labels, const torch::Tensor& places) {
  return places.defined() ? labels.flatten().index_select(0, places) : labels;
}

}  // namespace lra
