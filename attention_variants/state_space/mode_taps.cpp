// A lag is l = i + n j of n = √length near places i and as many far ones j: e^{r l} = e^{r i} e^{r
// n j}, whose product over all modes is one of matrices for each channel. Phases reach thousands of
// turns, so that exponents are computed in float64; factors are rounded to `type` before.
#include "attention_variants/state_space/mode_taps.h"

#include <cmath>

#include "attention_variants/ops/autocast.h"
#include "attention_variants/ops/autograd_state.h"

namespace lra::state_space {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Places {
  int64_t near, far;
  explicit Places(int64_t length)
      : near(static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(length))))),
        far((length + near - 1) / near) {}
};

// e^{rates p} for p of `count` places, `step` apart: [D,count,S]. Of real exponents and phases by
// themselves, as LibTorch's exponential of complex numbers takes five times as long.
torch::Tensor powers(const torch::Tensor& rates, int64_t count, int64_t step,
                     torch::ScalarType type) {
  const torch::Tensor places =
      torch::arange(0, count * step, step, rates.options().dtype(torch::kDouble)).unsqueeze(-1);
  const torch::Tensor size = (torch::real(rates).unsqueeze(1) * places).exp(),
                      phase = torch::imag(rates).unsqueeze(1) * places;
  return torch::view_as_complex(
      at::stack({(size * phase.cos()).to(type), (size * phase.sin()).to(type)}, -1));
}

// [..,S] -> [..,2S], real and imaginary parts side by side.
torch::Tensor real_pairs(const torch::Tensor& z) { return torch::view_as_real(z).flatten(-2); }
torch::Tensor of_real_pairs(const torch::Tensor& parts) {
  return torch::view_as_complex(parts.unflatten(-1, {-1, 2}));
}

class ModeTaps : public torch::autograd::Function<ModeTaps> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& rates,
                               const torch::Tensor& weights, int64_t length,
                               torch::ScalarType type) {
    const Places places(length);
    const torch::Tensor near = torch::conj_physical(powers(rates, places.near, 1, type)),
                        far = powers(rates, places.far, places.near, type);
    context->save_for_backward({weights, near, far});
    // Re(z near) = Re z Re near + Im z Im conj(near)
    const torch::Tensor weighted = weights.unsqueeze(2).to(far.scalar_type()) * far;  // [K,D,far,S]
    return torch::matmul(real_pairs(weighted), real_pairs(near).transpose(1, 2))
        .flatten(2)
        .narrow(2, 0, length)
        .contiguous();
  }

  // The gradient of w is Σ_l g_l conj(e^{r l}), that of r Σ_l l g_l conj(w e^{r l}).
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    // A caller may go backwards under autocast, whose bfloat16 has no complex numbers.
    const ops::NoAutocast guard;
    const variable_list kept = ops::saved_tensors(*context);
    const torch::Tensor &weights = kept[0], &near = kept[1], &far = kept[2];
    const int64_t near_places = near.size(1), far_places = far.size(1);
    const torch::Tensor& given = gradients[0];  // [K,D,N]
    const torch::Tensor gradient =
        at::constant_pad_nd(given, {0, near_places * far_places - given.size(2)})
            .unflatten(2, {far_places, near_places});
    const torch::Tensor place = torch::arange(near_places, given.options()),
                        first =
                            torch::arange(far_places, given.options()).unsqueeze(-1) * near_places;
    const auto over_near = [&](const torch::Tensor& g) {
      return of_real_pairs(torch::matmul(g, real_pairs(near)));  // [K,D,far,S]
    };
    const torch::Tensor far_conjugate = torch::conj_physical(far);
    const torch::Tensor sums = over_near(gradient) * far_conjugate,
                        by_place = over_near(gradient * place) * far_conjugate;
    const torch::Tensor by_lag = (by_place + sums * first).sum(2).to(torch::kComplexDouble);
    return {(by_lag * torch::conj_physical(weights)).sum(0),
            sums.sum(2).to(torch::kComplexDouble),
            {},
            {}};
  }
};

}  // namespace

torch::Tensor mode_taps(const torch::Tensor& rates, const torch::Tensor& weights, int64_t length,
                        torch::ScalarType type) {
  return ModeTaps::apply(rates, weights, length, type);
}

}  // namespace lra::state_space
