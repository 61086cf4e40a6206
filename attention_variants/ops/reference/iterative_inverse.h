// The Newton-type iteration for the (pseudo-)inverse of small matrices.
#pragma once

#include "attention_variants/torch.h"

namespace lra::ops::reference {

/// Z ← ¼ Z (13 I − AZ (15 I − AZ (7 I − AZ))), `iterations` times (Razavi et al., ICACSIS 2014):
/// a, z [..,m,m] -> [..,m,m]. Of third order, and it converges to A⁺ where the eigenvalues of A Z₀
/// are 0 or in (0,1], as with Z₀ = Aᵀ / (‖A‖₁ ‖A‖∞).
torch::Tensor iterative_inverse(const torch::Tensor& a, torch::Tensor z, int64_t iterations);

}  // namespace lra::ops::reference
