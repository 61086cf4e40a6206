#include "attention_variants/ops/autograd_state.h"
#include "attention_variants/ops/cpu/kernels/rows/channel_convolution.h"
#include "attention_variants/ops/cpu/operators.h"
#include "attention_variants/ops/cpu/parallel.h"
#include "attention_variants/ops/cpu/row_tiles.h"

namespace lra::ops::cpu {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Above it transforms are faster (docs/operators.md).
constexpr int64_t kMostTaps = 128;

ConstMatrix sample_of(const torch::Tensor& x, int64_t b) {
  return {x.const_data_ptr<float>() + b * x.size(1) * x.size(2), x.size(2)};
}

// x [B,N,D], taps [K,D], both contiguous.
torch::Tensor convolved(const torch::Tensor& x, const torch::Tensor& taps, int64_t ahead) {
  torch::Tensor out = torch::empty_like(x);
  const int64_t length = x.size(1), width = x.size(2), tiles = (length + kRowTile - 1) / kRowTile;
  parallel_for_dynamic(x.size(0) * tiles, [&](int64_t item, int64_t) {
    const int64_t b = item / tiles, begin = item % tiles * kRowTile;
    channel_convolution({taps.const_data_ptr<float>(), width}, taps.size(0), ahead, sample_of(x, b),
                        length, width, begin, std::min(kRowTile, length - begin),
                        {out.mutable_data_ptr<float>() + (b * length + begin) * width, width});
  });
  return out;
}

struct TapSums {
  TapSums(const torch::Tensor& taps, Arena& arena) : sums(take_zeros(arena, taps.numel())) {}
  float* sums;
};

// As a function of autograd; x [B,N,D], taps [K,D].
class ChannelConvolution : public torch::autograd::Function<ChannelConvolution> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x_given,
                               const torch::Tensor& taps_given, int64_t ahead) {
    const torch::Tensor x = x_given.contiguous(), taps = taps_given.contiguous();
    context->save_for_backward({x, taps});
    context->saved_data["ahead"] = ahead;
    return convolved(x, taps, ahead);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list kept = saved_tensors(*context);
    const torch::Tensor &x = kept[0], &taps = kept[1];
    const torch::Tensor gradient = gradients[0].contiguous();
    const int64_t ahead = context->saved_data.at("ahead").toInt(), count = taps.size(0);
    const int64_t batch = x.size(0), workers = threads_for(batch);
    RowTileWorkers<TapSums> parts(workers, taps);
    parallel_for_dynamic(workers, [&](int64_t worker, int64_t) {
      for (int64_t b = batch * worker / workers; b < batch * (worker + 1) / workers; ++b) {
        add_tap_gradients(sample_of(gradient, b), sample_of(x, b), x.size(1), x.size(2), count,
                          ahead, {parts[worker].sums, x.size(2)});
      }
    });
    return {convolved(gradient, taps.flip(0).contiguous(), count - 1 - ahead),
            parts.sum(&TapSums::sums, taps),
            {}};
  }
};

}  // namespace

bool takes(const Place& place, const LongConvolutionShape& shape) {
  return is_cpu_float(place) && shape.float_taps && shape.taps <= kMostTaps;
}

torch::Tensor run(const LongConvolutionCall& call) {
  return ChannelConvolution::apply(call.x, call.taps.t(), call.ahead);
}

}  // namespace lra::ops::cpu
