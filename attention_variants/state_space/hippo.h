// Starts of state-space layers from the HiPPO-LegS matrix (Gu et al., NeurIPS 2020; Gupta et al.,
// NeurIPS 2022).
#pragma once

#include "attention_variants/torch.h"

namespace lra::state_space {

/// The normal part of HiPPO-LegS of n states, A + p pᵀ with p_k = √(k + ½), diagonalised: half of
/// its eigenvalues, those with negative imaginary parts in ascending order; the others are their
/// conjugates. Eigenvectors have a real, positive first element.
struct DiagonalHippo {
  torch::Tensor eigenvalues;   // complex128 [n/2]; real parts are -1/2
  torch::Tensor eigenvectors;  // complex128 [n,n/2], V
};

/// n even, at least 2.
DiagonalHippo diagonal_hippo(int64_t n);

/// B of HiPPO-LegS, √(2k + 1): float64 [n].
torch::Tensor hippo_input(int64_t n);

}  // namespace lra::state_space
