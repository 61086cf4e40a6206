#include "attention_variants/ops/autocast.h"

#include <ATen/autocast_mode.h>

namespace lra::ops {

AutocastScope::AutocastScope(torch::Device device, bool active, bool enabled)
    : device_(device), active_(active) {
  if (!active_) return;
  was_enabled_ = at::autocast::is_autocast_enabled(device_.type());
  was_type_ = at::autocast::get_autocast_dtype(device_.type());
  at::autocast::set_autocast_dtype(device_.type(), torch::kBFloat16);
  at::autocast::set_autocast_enabled(device_.type(), enabled);
}

AutocastScope::~AutocastScope() {
  if (!active_) return;
  at::autocast::clear_cache();  // its weights may be of another type than those around it
  at::autocast::set_autocast_enabled(device_.type(), was_enabled_);
  at::autocast::set_autocast_dtype(device_.type(), was_type_);
}

bool under_autocast(torch::DeviceType device) {
  return at::autocast::is_autocast_enabled(device) &&
         !c10::impl::tls_is_dispatch_key_excluded(
             at::autocast::get_autocast_dispatch_key_from_device_type(device));
}

torch::ScalarType product_type(const torch::Tensor& x) {
  const torch::DeviceType device = x.device().type();
  return under_autocast(device) ? at::autocast::get_autocast_dtype(device) : x.scalar_type();
}

}  // namespace lra::ops
