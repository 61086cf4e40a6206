#include "attention_variants/ops/long_convolution.h"

#include <cmath>

#include "attention_variants/ops/cpu/operators.h"
#include "attention_variants/ops/dispatch/recorded.h"
#include "attention_variants/ops/reference/operators.h"

namespace lra::ops {
namespace {

constexpr Implementation<LongConvolutionCall> kLongConvolution[] = {
    {cpu::takes, cpu::run, nullptr}, {nullptr, reference::run, nullptr}};

}  // namespace

torch::Tensor long_convolution(Kernels asked, const LongConvolutionCall& call) {
  return run_recorded("lra::long_convolution", kLongConvolution, asked, Place::of(call.x),
                      call.shape(), call);
}

torch::Tensor with_skip(const torch::Tensor& taps, int64_t ahead, const torch::Tensor& skip) {
  torch::Tensor sums = taps.clone();
  sums.select(1, ahead) += skip.to(taps.scalar_type());
  return sums;
}

int64_t long_convolution_flops(const LongConvolutionShape& shape) {
  const double n = 2.0 * static_cast<double>(shape.length);
  return shape.batch * shape.width * std::llround(5 * n * std::log2(n));
}

}  // namespace lra::ops
