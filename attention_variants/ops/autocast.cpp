#include "attention_variants/ops/autocast.h"

#include <ATen/autocast_mode.h>

namespace lra::ops {

AutocastScope::AutocastScope(torch::Device device, Dtype dtype)
    : device_(device), active_(dtype == Dtype::bfloat16) {
  if (!active_) return;
  at::autocast::set_autocast_dtype(device_.type(), torch::kBFloat16);
  at::autocast::set_autocast_enabled(device_.type(), true);
}

AutocastScope::~AutocastScope() {
  if (!active_) return;
  at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_.type(), false);
}

}  // namespace lra::ops
