#include "attention_variants/ops/autograd_state.h"
#include "attention_variants/ops/cpu/kernels/kernels.h"
#include "attention_variants/ops/cpu/operators.h"
#include "attention_variants/ops/cpu/parallel.h"
#include "attention_variants/ops/cpu/row_tiles.h"
#include "attention_variants/ops/heads.h"

namespace lra::ops::cpu {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

ConstMatrix sample_of(const torch::Tensor& x, int64_t b) {
  return {x.const_data_ptr<float>() + b * x.size(1) * x.size(2), x.size(2)};
}
Matrix sample_of(torch::Tensor& x, int64_t b) {
  return {x.mutable_data_ptr<float>() + b * x.size(1) * x.size(2), x.size(2)};
}

// x [B,N,D], taps [K,D], both contiguous.
torch::Tensor convolved(const torch::Tensor& x, const torch::Tensor& taps, int64_t ahead) {
  torch::Tensor out = torch::empty_like(x);
  const int64_t length = x.size(1), width = x.size(2), tiles = (length + kRowTile - 1) / kRowTile;
  parallel_for_dynamic(x.size(0) * tiles, [&](int64_t item, int64_t) {
    const int64_t b = item / tiles, begin = item % tiles * kRowTile;
    channel_convolution({taps.const_data_ptr<float>(), width}, taps.size(0), ahead, sample_of(x, b),
                        length, width, begin, std::min(kRowTile, length - begin),
                        sample_of(out, b).from(begin));
  });
  return out;
}

struct TapSums {
  TapSums(const torch::Tensor& taps, Arena& arena) : sums(take_zeros(arena, taps.numel())) {}
  float* sums;
};

// Towards x and taps.
variable_list convolved_backward(const torch::Tensor& x, const torch::Tensor& taps, int64_t ahead,
                                 const torch::Tensor& gradient) {
  const int64_t count = taps.size(0), batch = x.size(0), workers = threads_for(batch);
  RowTileWorkers<TapSums> parts(workers, taps);
  parallel_for_dynamic(workers, [&](int64_t worker, int64_t) {
    for (int64_t b = batch * worker / workers; b < batch * (worker + 1) / workers; ++b) {
      add_tap_gradients(sample_of(gradient, b), sample_of(x, b), x.size(1), x.size(2), count, ahead,
                        {parts[worker].sums, x.size(2)});
    }
  });
  return {convolved(gradient, dense(taps.flip(0)), count - 1 - ahead),
          parts.sum(&TapSums::sums, taps)};
}

// The channels that go through transforms together, and memory for their spectra.
class ChannelBlocks {
 public:
  // For x [B,N,D] and taps [K,D], all of lags below N.
  ChannelBlocks(const torch::Tensor& x, const torch::Tensor& taps, int64_t ahead)
      : width_(x.size(2)),
        length_(x.size(1)),
        count_(taps.size(0)),
        ahead_(ahead),
        plan_(fourier_plan(length_ + std::max(ahead, count_ - 1 - ahead))) {}

  const FourierPlan& plan() const { return plan_; }
  int64_t length() const { return length_; }
  int64_t blocks() const { return (width_ + lanes_ - 1) / lanes_; }
  int64_t lanes(int64_t block) const { return std::min(lanes_, width_ - block * lanes_); }

  /// A block's columns of rows of all channels.
  template <class T>
  Rows<T> columns(Rows<T> rows, int64_t block) const {
    return {rows.data + block * lanes_, rows.stride};
  }
  template <class T>
  BlockTaps<T> taps(T* taps, int64_t block) const {
    return {.rows = columns(Rows<T>{taps, width_}, block), .count = count_, .ahead = ahead_};
  }

  /// For `count` times so many complex numbers of a block.
  torch::Tensor numbers(int64_t count, int64_t size) const {
    return torch::empty({count, 2 * lanes_ * size}, torch::kFloat);
  }
  torch::Tensor spectra() const { return numbers(blocks(), plan_.spectrum()); }

  /// Of taps [K,D].
  torch::Tensor transformed(const torch::Tensor& given) const {
    torch::Tensor spectra = this->spectra(), scratch = numbers(threads_for(blocks()), plan_.size);
    parallel_for_dynamic(blocks(), [&](int64_t block, int64_t thread) {
      transform_taps(plan_, taps(given.const_data_ptr<float>(), block), lanes(block),
                     row(spectra, block), row(scratch, thread));
    });
    return spectra;
  }

  static float* row(torch::Tensor& numbers, int64_t i) {
    return numbers.mutable_data_ptr<float>() + i * numbers.size(1);
  }
  static const float* row(const torch::Tensor& numbers, int64_t i) {
    return numbers.const_data_ptr<float>() + i * numbers.size(1);
  }

 private:
  const int64_t lanes_ = kernels().simd_width;
  const int64_t width_, length_, count_, ahead_;
  const FourierPlan& plan_;
};

Cached cached(const torch::Tensor& result) {
  constexpr int64_t kBytes = int64_t{4} << 20;  // of the caches of a few cores
  return static_cast<int64_t>(result.nbytes()) <= kBytes ? Cached::yes : Cached::no;
}

// Fills grad_x, and returns the sums towards the spectra. Samples are added up in groups, as many
// whatever the threads are: enough items for a large machine, few enough sums.
torch::Tensor backward_of_samples(const ChannelBlocks& of, const torch::Tensor& x,
                                  const torch::Tensor& gradient, const torch::Tensor& spectra,
                                  torch::Tensor& grad_x) {
  const int64_t batch = x.size(0), blocks = of.blocks();
  const int64_t groups = std::clamp<int64_t>(16 / blocks, 1, std::max<int64_t>(batch, 1)),
                items = groups * blocks;
  torch::Tensor sums = of.numbers(items, of.plan().spectrum()),
                scratch = of.numbers(threads_for(items), 2 * of.plan().size);
  parallel_for_dynamic(items, [&](int64_t item, int64_t thread) {
    const int64_t group = item / blocks, block = item % blocks;
    float* const of_item = of.row(sums, item);
    std::fill(of_item, of_item + sums.size(1), 0.0F);
    for (int64_t b = batch * group / groups; b < batch * (group + 1) / groups; ++b) {
      filter_channels_backward(of.plan(), of.columns(sample_of(x, b), block),
                               of.columns(sample_of(gradient, b), block), of.length(),
                               of.lanes(block), of.row(spectra, block),
                               of.columns(sample_of(grad_x, b), block), cached(grad_x), of_item,
                               of.row(scratch, thread));
    }
  });
  for (int64_t item = blocks; item < items; ++item) {
    float* const to = of.row(sums, item % blocks);
    add(to, of.row(std::as_const(sums), item), sums.size(1), to);
  }
  return sums;
}

// The same two by transforms.
torch::Tensor transformed(const torch::Tensor& x, const torch::Tensor& taps, int64_t ahead) {
  const ChannelBlocks of(x, taps, ahead);
  const torch::Tensor spectra = of.transformed(taps);
  torch::Tensor out = torch::empty_like(x);
  const int64_t items = x.size(0) * of.blocks();
  torch::Tensor scratch = of.numbers(threads_for(items), of.plan().size);
  parallel_for_dynamic(items, [&](int64_t item, int64_t thread) {
    const int64_t b = item / of.blocks(), block = item % of.blocks();
    filter_channels(of.plan(), of.columns(sample_of(x, b), block), of.length(), of.lanes(block),
                    of.row(spectra, block), of.columns(sample_of(out, b), block), cached(out),
                    of.row(scratch, thread));
  });
  return out;
}

variable_list transformed_backward(const torch::Tensor& x, const torch::Tensor& taps, int64_t ahead,
                                   const torch::Tensor& gradient) {
  const ChannelBlocks of(x, taps, ahead);
  torch::Tensor grad_x = torch::empty_like(x), grad_taps = torch::empty_like(taps);
  torch::Tensor sums = backward_of_samples(of, x, gradient, of.transformed(taps), grad_x),
                scratch = of.numbers(threads_for(of.blocks()), of.plan().size);
  parallel_for_dynamic(of.blocks(), [&](int64_t block, int64_t thread) {
    spectrum_to_taps(of.plan(), of.row(sums, block),
                     of.taps(grad_taps.mutable_data_ptr<float>(), block), of.lanes(block),
                     of.row(scratch, thread));
  });
  return {grad_x, grad_taps};
}

// As a function of autograd; x [B,N,D], taps [K,D] of lags below N.
class LongConvolution : public torch::autograd::Function<LongConvolution> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x_given,
                               const torch::Tensor& taps_given, int64_t ahead) {
    const torch::Tensor x = dense(x_given), taps = dense(taps_given);
    context->save_for_backward({x, taps});
    context->saved_data["ahead"] = ahead;
    return (is_summed(taps) ? convolved : transformed)(x, taps, ahead);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list kept = saved_tensors(*context);
    const torch::Tensor &x = kept[0], &taps = kept[1];
    const auto run = is_summed(taps) ? convolved_backward : transformed_backward;
    variable_list found =
        run(x, taps, context->saved_data.at("ahead").toInt(), dense(gradients[0]));
    found.emplace_back();  // of `ahead`
    return found;
  }

 private:
  static bool is_summed(const torch::Tensor& taps) { return taps.size(0) <= kMostSummedTaps; }
};

}  // namespace

bool takes(const Place& place, const LongConvolutionShape& shape) {
  return is_cpu_float(place) && shape.float_taps;
}

torch::Tensor run(const LongConvolutionCall& call) {
  const UsedTaps used(call.taps.size(1), call.ahead, call.x.size(1));
  const torch::Tensor taps = call.taps.narrow(1, used.first, used.count).t();
  return LongConvolution::apply(call.x, taps, used.ahead);
}

}  // namespace lra::ops::cpu
