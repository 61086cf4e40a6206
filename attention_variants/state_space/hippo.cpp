#include "attention_variants/state_space/hippo.h"

namespace lra::state_space {

torch::Tensor hippo_input(int64_t n) { return (2 * torch::arange(n, torch::kDouble) + 1).sqrt(); }

DiagonalHippo diagonal_hippo(int64_t n) {
  // A_jk = -√(2j+1) √(2k+1) below the diagonal; with p pᵀ, half of that on either side of it but
  // for the sign, and -1/2 on it: skew-symmetric but for the diagonal.
  const torch::Tensor root = hippo_input(n), half = torch::outer(root, root) / 2;
  const torch::Tensor skew = torch::triu(half, 1) - torch::tril(half, -1);
  const auto [imaginary, vectors] = torch::linalg_eigh(
      torch::complex(torch::zeros_like(skew), -skew), /*UPLO=*/"L");  // -i skew is Hermitian
  const torch::Tensor part = imaginary.narrow(0, 0, n / 2), v = vectors.narrow(1, 0, n / 2);
  const torch::Tensor phase = v[0] / v[0].abs();
  return {.eigenvalues = torch::complex(torch::full_like(part, -0.5), part),
          .eigenvectors = v / phase};
}

}  // namespace lra::state_space
