// Mixed precision: LibTorch's autocast, for a scope.
#pragma once

#include <string>

#include "attention_variants/torch.h"

namespace lra::ops {

/// Autocast to bfloat16 on `device` for a scope, where `dtype` is "bfloat16"; nothing for
/// "float32".
class AutocastScope {
 public:
  AutocastScope(torch::Device device, const std::string& dtype);
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  torch::Device device_;
  bool active_;
};

}  // namespace lra::ops
