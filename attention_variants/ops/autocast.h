// Mixed precision: LibTorch's autocast, for a scope.
#pragma once

#include "attention_variants/ops/types.h"
#include "attention_variants/torch.h"

namespace lra::ops {

/// Autocast to bfloat16 on `device` for a scope, where `dtype` is bfloat16; nothing for others.
/// What stood around it comes back.
class AutocastScope {
 public:
  AutocastScope(torch::Device device, Dtype dtype)
      : AutocastScope(device, dtype == Dtype::bfloat16, true) {}
  /// None on `device` for a scope, whatever stands around it: of modules that may ask for
  /// autocast's settings, as a user's do.
  static AutocastScope off(torch::Device device) { return {device, true, false}; }
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  AutocastScope(torch::Device device, bool active, bool enabled);

  torch::Device device_;
  bool active_;
  bool was_enabled_ = false;
  torch::ScalarType was_type_ = torch::kBFloat16;
};

/// None on any device for a scope, without a change of autocast's settings and cached casts: of
/// code within an operator or an attention that computes in the types of its tensors.
struct NoAutocast : c10::impl::ExcludeDispatchKeyGuard {
  NoAutocast() : ExcludeDispatchKeyGuard(c10::autocast_dispatch_keyset) {}
};

/// Whether autocast is on for a device, but for code that has left it by NoAutocast.
bool under_autocast(torch::DeviceType device);

/// What scores, sums and softmaxes of such numbers are computed in: float64 of float64, else
/// float32.
inline torch::ScalarType wide_type(torch::ScalarType type) {
  return type == torch::kDouble ? torch::kDouble : torch::kFloat;
}

/// In which type results of products of x are: that of x, or autocast's.
torch::ScalarType product_type(const torch::Tensor& x);

}  // namespace lra::ops
