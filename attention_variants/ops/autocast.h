// Mixed precision: LibTorch's autocast, for a scope.
#pragma once

#include "attention_variants/ops/types.h"
#include "attention_variants/torch.h"

namespace lra::ops {

/// Autocast to bfloat16 on `device` for a scope, where `dtype` is bfloat16; nothing for others.
class AutocastScope {
 public:
  AutocastScope(torch::Device device, Dtype dtype);
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  torch::Device device_;
  bool active_;
};

}  // namespace lra::ops
