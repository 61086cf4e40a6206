// Linear recurrences by doubling: after k rounds x_t holds the last 2^k terms of its sum, so that
// O(log N) operators on all positions do, whatever the device. O(N P log N) time and memory.
#include "attention_variants/ops/reference/operators.h"

namespace lra::ops::reference {
namespace {

// [..,2P] -> complex [..,P]
torch::Tensor as_complex(const torch::Tensor& x) {
  const auto parts = x.chunk(2, -1);
  return torch::complex(parts[0], parts[1]);
}

// v complex [B,N,P], transition complex [P]
torch::Tensor scan(const torch::Tensor& v, const torch::Tensor& transition) {
  torch::Tensor x = v, power = transition;
  const int64_t length = v.size(1);
  int64_t step = 1;
  do {  // of one position too, so that the transition has a gradient: zero
    const torch::Tensor later =
        x.narrow(1, step, length - step) + power * x.narrow(1, 0, length - step);
    x = torch::cat({x.narrow(1, 0, step), later}, 1);
    power = power * power;
    step *= 2;
  } while (step < length);
  return x;
}

torch::Tensor read_out(const torch::Tensor& x, const torch::Tensor& output) {
  return torch::matmul(torch::cat({torch::real(x), torch::imag(x)}, -1), output.t());
}

}  // namespace

torch::Tensor run(const DiagonalScanCall& call) {
  const torch::Tensor v = as_complex(torch::matmul(call.u, call.input.t()));
  const torch::Tensor transition = torch::complex(call.transition[0], call.transition[1]);
  const torch::Tensor y = read_out(scan(v, transition), call.output) + call.u * call.skip;
  if (!call.output_back.defined()) return y;
  return y + read_out(scan(v.flip(1), transition).flip(1), call.output_back);
}

}  // namespace lra::ops::reference
