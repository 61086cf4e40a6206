#include "attention_variants/ops/rotary.h"

#include <cmath>

#include "attention_variants/ops/autocast.h"

namespace lra::ops {

torch::Tensor rotate(const torch::Tensor& x, double base, int64_t first) {
  TORCH_CHECK(x.dim() == 4 && x.size(3) % 2 == 0 && base > 0,
              "rotary positions turn [B,H,N,d] with an even d by a base above 0, not ", x.sizes(),
              " by ", base);
  const int64_t length = x.size(2), width = x.size(3);
  const auto type = wide_type(x.scalar_type());
  // In float64: the angles reach the length, and float32 has no digits left for their fractions.
  // On x's device: a table from the host would keep steps from being recorded as a graph.
  const auto wide = x.options().dtype(torch::kDouble);
  const torch::Tensor rate =
      (torch::arange(0, width, 2, wide) * (-std::log(base) / static_cast<double>(width))).exp();
  const torch::Tensor angle =
      torch::arange(first, first + length, wide).unsqueeze(1) * rate;  // [N,d/2]
  const torch::Tensor cosine = angle.cos().to(type), sine = angle.sin().to(type);
  const torch::Tensor pairs = x.to(type).unflatten(3, {width / 2, 2}), a = pairs.select(4, 0),
                      b = pairs.select(4, 1);
  return torch::stack({a * cosine - b * sine, a * sine + b * cosine}, 4)
      .flatten(3)
      .to(x.scalar_type());
}

}  // namespace lra::ops
