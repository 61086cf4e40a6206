#include "lra/model/layer_flops.h"

#include "attention_variants/projected_attention.h"

namespace lra {

int64_t layer_flops(const Attention& attention, int64_t batch, int64_t length) {
  const int64_t inner = attention.flops(batch, length);
  if (inner < 0) return -1;
  int64_t a_position = 0;
  for (const auto& parameter : attention.named_parameters()) {
    if (is_projection(attention, parameter.key()) && parameter.value().dim() == 2)
      a_position += 2 * parameter.value().numel();
  }
  return inner + batch * length * a_position;
}

}  // namespace lra
