#include <ATen/autocast_mode.h>

#include "attention_variants/ops/autocast.h"
#include "attention_variants/ops/dispatch.h"

namespace lra::ops {

Place Place::of(const torch::Tensor& x) {
  const torch::DeviceType device = x.device().type();
  const bool autocast = under_autocast(device);
  return {.device = device,
          .type = x.scalar_type(),
          .autocast_ok = !autocast || at::autocast::get_autocast_dtype(device) == torch::kBFloat16,
          .autocast = autocast};
}

Place Place::of_bytes(int64_t element_size) {
  return {.type = element_size == 8   ? torch::kDouble
                  : element_size == 4 ? torch::kFloat
                                      : torch::kBFloat16};
}

bool is_cpu_float(const Place& place) {
  return place.device == torch::kCPU && place.type == torch::kFloat && place.autocast_ok;
}

bool is_cpu_stored(const Place& place) {
  if (is_cpu_float(place)) return true;
  return place.device == torch::kCPU && place.type == torch::kBFloat16 && place.autocast &&
         place.autocast_ok;
}

}  // namespace lra::ops
