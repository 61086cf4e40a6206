// What the cells of a profile measure.
#pragma once

#include "attention_variants/base/enum_names.h"

namespace lra {

enum class ProfileScope {
  core,    // attend(q, k, v, mask)
  module,  // forward(x, mask), with the projections
  model,   // the whole model of a protocol
};
constexpr auto names(ProfileScope) { return std::array{"core", "module", "model"}; }

enum class ProfileMode {
  inference,
  training,  // forward and backward; of a model the optimizer's step too
};
constexpr auto names(ProfileMode) { return std::array{"inference", "training"}; }

}  // namespace lra
