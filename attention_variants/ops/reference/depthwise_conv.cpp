// Depthwise convolution over positions by banded (Toeplitz) matrices.
//
// A block of T outputs depends on T + K - 1 inputs: out[T,d] = W[T,T+K-1] x[T+K-1,d], where row t
// of W holds the kernel from column t on. Overlapping blocks of the padded input are a strided
// view, so all blocks of a head are one batched product that copies nothing. It spends (T+K-1)/K
// times the multiplications and wins them back many times over against a grouped convolution.
#include "attention_variants/ops/reference/depthwise_conv.h"

#include <vector>

#include "attention_variants/ops/autocast.h"
#include "attention_variants/ops/autograd_state.h"

namespace lra::ops::reference {
namespace {

constexpr int64_t kConvBlock = 64;  // T

// The sequences of a batch laid end to end, each in a slot that is a whole number of blocks, so
// that one run of blocks covers them all. At least K - 1 rows follow the last block with outputs,
// so that its window sees no other sequence's values: NaN there would reach it, times a zero of the
// band.
struct Slots {
  torch::Tensor data;  // [H, B*slot + K - 1, d]
  int64_t slot = 0;    // rows of one sequence
  int64_t blocks = 0;  // of one head: B * slot / T
};

int64_t slot_rows(int64_t length, int64_t kernel) {
  const auto whole = [](int64_t rows) { return (rows + kConvBlock - 1) / kConvBlock * kConvBlock; };
  return whole(whole(length) + kernel - 1);
}

Slots lay_out(const torch::Tensor& x, int64_t kernel, int64_t left) {
  const int64_t batch = x.size(0), heads = x.size(1), length = x.size(2), width = x.size(3);
  Slots slots;
  slots.slot = slot_rows(length, kernel);
  slots.blocks = batch * slots.slot / kConvBlock;
  const int64_t rows = batch * slots.slot + kernel - 1;
  slots.data = torch::zeros({heads, rows, width}, x.options());
  slots.data
      .as_strided({batch, heads, length, width}, {slots.slot * width, rows * width, width, 1},
                  left * width)
      .copy_(x);
  return slots;
}

// Blocks of `rows` rows of one head from row `first` on, T apart: [blocks, rows, d], a view.
torch::Tensor windows(const Slots& slots, int64_t head, int64_t first, int64_t rows) {
  const torch::Tensor data = slots.data[head];
  const int64_t width = data.size(1);
  return data.as_strided({slots.blocks, rows, width}, {kConvBlock * width, width, 1},
                         data.storage_offset() + first * width);
}

// weight [H,K] -> [H,T,T+K-1]: rows of T+K zeros and kernel, read T+K-1 at a time, shift by one a
// row.
torch::Tensor toeplitz(const torch::Tensor& weight) {
  const int64_t heads = weight.size(0), span = kConvBlock + weight.size(1) - 1;
  return torch::constant_pad_nd(weight, {0, kConvBlock})
      .repeat({1, kConvBlock})
      .narrow(1, 0, kConvBlock * span)
      .view({heads, kConvBlock, span});
}

// The convolution of what `slots` holds, weight [H,K] -> [B,H,N,d], a view of a larger buffer.
torch::Tensor convolve(const Slots& slots, const torch::Tensor& weight, int64_t batch,
                       int64_t length) {
  const int64_t heads = weight.size(0), span = kConvBlock + weight.size(1) - 1,
                width = slots.data.size(2);
  const torch::Tensor bands = toeplitz(weight);
  torch::Tensor out = torch::empty({heads, slots.blocks, kConvBlock, width}, slots.data.options());
  for (int64_t h = 0; h < heads; ++h) {
    torch::Tensor head = out[h];
    at::bmm_out(head, bands[h].expand({slots.blocks, kConvBlock, span}),
                windows(slots, h, 0, span));
  }
  return out.view({heads, batch, slots.slot, width}).narrow(2, 0, length).transpose(0, 1);
}

class DepthwiseConv : public torch::autograd::Function<DepthwiseConv> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& x,
                               const torch::Tensor& weight) {  // [B,H,N,d], [H,K]
    const NoAutocast guard;
    context->save_for_backward({x, weight});
    const int64_t kernel = weight.size(1);
    return convolve(lay_out(x, kernel, (kernel - 1) / 2), weight, x.size(0), x.size(2));
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const NoAutocast guard;
    const auto saved = saved_tensors(*context);
    const torch::Tensor &x = saved[0], &weight = saved[1], &gradient = gradients[0];
    const int64_t batch = x.size(0), length = x.size(2), width = x.size(3);
    const int64_t heads = weight.size(0), kernel = weight.size(1), span = kConvBlock + kernel - 1;
    // Towards x: the same convolution with the kernel turned round, and so the odd place of an even
    // kernel on the other side.
    const int64_t left = (kernel - 1) / 2, turned_left = kernel / 2;
    const Slots gradient_slots = lay_out(gradient, kernel, turned_left);
    const torch::Tensor gradient_x = convolve(gradient_slots, weight.flip(1), batch, length);
    // Towards weight: the sum over blocks of gradient[T,d] x[T+K-1,d]ᵀ, of which diagonal j belongs
    // to tap j.
    const Slots x_slots = lay_out(x, kernel, left);
    const int64_t blocks = x_slots.slot / kConvBlock;  // of one sequence
    const auto joined = [&](const torch::Tensor& view,
                            int64_t rows) {  // [B*n,rows,d] -> [B,rows,n*d]
      return view.reshape({batch, blocks, rows, width})
          .transpose(1, 2)
          .reshape({batch, rows, blocks * width});
    };
    std::vector<torch::Tensor> gradient_weight;
    for (int64_t h = 0; h < heads; ++h) {
      const torch::Tensor outer =
          torch::matmul(joined(windows(gradient_slots, h, turned_left, kConvBlock), kConvBlock),
                        joined(windows(x_slots, h, 0, span), span).transpose(1, 2))
              .sum(0);  // [T,T+K-1]
      gradient_weight.push_back(outer.as_strided({kConvBlock, kernel}, {span + 1, 1}).sum(0));
    }
    return {gradient_x, torch::stack(gradient_weight)};
  }
};

}  // namespace

torch::Tensor depthwise_conv(const torch::Tensor& x, const torch::Tensor& weight) {
  return DepthwiseConv::apply(x, weight.view({weight.size(0), weight.size(2)}).to(x.scalar_type()));
}

int64_t depthwise_conv_bytes(int64_t batch, int64_t heads, int64_t length, int64_t width,
                             int64_t kernel, int64_t element_size) {
  const int64_t rows = batch * slot_rows(length, kernel),
                bands = kConvBlock * (kConvBlock + kernel);  // of one head
  return heads * ((2 * rows + kernel - 1) * width + bands) * element_size;
}

}  // namespace lra::ops::reference
