// Linear recurrences with a diagonal transition, between two projections.
#pragma once

#include "attention_variants/ops/types.h"
#include "attention_variants/torch.h"

namespace lra::ops {

struct DiagonalScanShape {
  int64_t batch = 0, length = 0, width = 0;
  int64_t states = 0;  // P
  bool float_parameters = true;
};

/// x_t = λ x_{t-1} + B u_t with complex λ and x, x before the first position 0, and y_t = Re(C
/// x_t) + skip ⊙ u_t. Where `output_back` is given, plus Re(C' x'_t) with x'_t = λ x'_{t+1} + B
/// u_t.
///   u [B,N,D]; transition λ [2,P]; input B [2P,D]; skip [D]; output, output_back [D,2P] -> y
///   [B,N,D]
/// all real: real parts, then imaginary ones, so that output is [Re C, -Im C]. The own kernel keeps
/// states of one chunk of positions, and those between chunks for the backward pass; it is
/// differentiable once.
struct DiagonalScanCall {
  using Result = torch::Tensor;
  using Shape = DiagonalScanShape;
  torch::Tensor u, transition, input, skip, output, output_back = {};

  Shape shape() const {
    return {.batch = u.size(0),
            .length = u.size(1),
            .width = u.size(2),
            .states = transition.size(1),
            .float_parameters = transition.scalar_type() == torch::kFloat};
  }
};

torch::Tensor diagonal_scan(Kernels asked, const DiagonalScanCall& call);

/// Floating-point operations of one: both projections, and 8 for each state's step.
int64_t diagonal_scan_flops(const DiagonalScanShape& shape, int64_t directions);

}  // namespace lra::ops
