// Convolutions over positions by LibTorch's Fourier transforms. Both directions share one circular
// convolution: taps that reach ahead stand at its end. It is long enough that what they reach
// beyond either end of a sequence is zero.
#include "attention_variants/ops/autograd_state.h"
#include "attention_variants/ops/reference/operators.h"

namespace lra::ops::reference {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The next number at or above n without prime factors above 5, which transforms are fast for.
int64_t smooth_length(int64_t n) {
  for (;; ++n) {
    int64_t rest = n;
    for (const int64_t factor : {2, 3, 5}) {
      while (rest % factor == 0) rest /= factor;
    }
    if (rest == 1) return n;
  }
}

int64_t period_of(const UsedTaps& used, int64_t length) {
  return smooth_length(length + std::max(used.ahead, used.earlier()));
}

// [D,period/2+1]: the transform of the taps, each at its lag.
torch::Tensor transformed(const torch::Tensor& taps, const UsedTaps& used, int64_t period) {
  const torch::Tensor circular = torch::zeros({taps.size(0), period}, taps.options());
  circular.narrow(1, 0, used.earlier() + 1)
      .copy_(taps.narrow(1, used.first + used.ahead, used.earlier() + 1));
  circular.narrow(1, period - used.ahead, used.ahead).copy_(taps.narrow(1, used.first, used.ahead));
  return torch::fft::rfft(circular);
}

// Samples at a time: enough for all threads, few enough that their transforms stay in cache.
int64_t samples_together(const torch::Tensor& x, int64_t period) {
  constexpr int64_t kElements = int64_t{1} << 18, kOnDevice = int64_t{1} << 26;
  return std::clamp<int64_t>((x.is_cpu() ? kElements : kOnDevice) / (x.size(2) * period), 1,
                             std::max<int64_t>(x.size(0), 1));
}

class FourierConvolution : public torch::autograd::Function<FourierConvolution> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x,
                               const torch::Tensor& taps, int64_t ahead) {
    context->save_for_backward({x, taps});
    context->saved_data["ahead"] = ahead;
    const int64_t length = x.size(1);
    const UsedTaps used(taps.size(1), ahead, length);
    const int64_t period = period_of(used, length), together = samples_together(x, period);
    const torch::Tensor response = transformed(taps, used, period);
    torch::Tensor out = torch::empty_like(x, at::MemoryFormat::Contiguous);
    for (int64_t b = 0; b < x.size(0); b += together) {
      const int64_t count = std::min(together, x.size(0) - b);
      filter(x.narrow(0, b, count), response, period, out.narrow(0, b, count));
    }
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list kept = saved_tensors(*context);
    const torch::Tensor &x = kept[0], &taps = kept[1], &gradient = gradients[0];
    const int64_t length = x.size(1);
    const UsedTaps used(taps.size(1), context->saved_data.at("ahead").toInt(), length);
    const int64_t period = period_of(used, length), together = samples_together(x, period);
    const torch::Tensor turned = transformed(taps, used, period).conj().resolve_conj();
    torch::Tensor grad_x = torch::empty_like(x, at::MemoryFormat::Contiguous),
                  grad_response = torch::zeros_like(turned);
    for (int64_t b = 0; b < x.size(0); b += together) {
      const int64_t count = std::min(together, x.size(0) - b);
      torch::Tensor of_grad = spectrum(gradient.narrow(0, b, count), period);
      grad_response +=
          (torch::conj_physical(spectrum(x.narrow(0, b, count), period)) * of_grad).sum(0);
      synthesise(of_grad.mul_(turned), period, grad_x.narrow(0, b, count));
    }
    const torch::Tensor circular = torch::fft::irfft(grad_response, period);
    torch::Tensor grad_taps = torch::zeros_like(taps);
    grad_taps.narrow(1, used.first + used.ahead, used.earlier() + 1)
        .copy_(circular.narrow(1, 0, used.earlier() + 1));
    grad_taps.narrow(1, used.first, used.ahead)
        .copy_(circular.narrow(1, period - used.ahead, used.ahead));
    return {grad_x, grad_taps, {}};
  }

 private:
  // [B,N,D] -> [B,D,period/2+1], zeros behind the sequence.
  static torch::Tensor spectrum(const torch::Tensor& x, int64_t period) {
    return torch::fft::rfft(x.transpose(1, 2), period);
  }
  static void synthesise(const torch::Tensor& of, int64_t period, torch::Tensor to) {
    to.copy_(torch::fft::irfft(of, period).narrow(2, 0, to.size(1)).transpose(1, 2));
  }
  static void filter(const torch::Tensor& x, const torch::Tensor& response, int64_t period,
                     const torch::Tensor& to) {
    synthesise(spectrum(x, period).mul_(response), period, to);
  }
};

}  // namespace

torch::Tensor run(const LongConvolutionCall& call) {
  return FourierConvolution::apply(call.x, call.taps, call.ahead);
}

}  // namespace lra::ops::reference
