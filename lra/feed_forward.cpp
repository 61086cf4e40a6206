#include "lra/feed_forward.h"

#include <algorithm>
#include <vector>

#include "attention_variants/kernels/cpu/matrix.h"
#include "attention_variants/kernels/cpu/row_math.h"
#include "attention_variants/kernels/kernels.h"
#include "attention_variants/kernels/row_parts.h"
#include "lra/dropout.h"

namespace lra {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

static_assert(kRowTile % 128 == 0, "a tile should begin a block of a dropout");

// Raw views of a block's parameters.
struct Block {
  int64_t width, hidden;
  bool normed;
  const float *norm_weight, *norm_bias, *in_bias, *out_bias;
  cpu::ConstMatrix in, out;  // [F,D], [D,F]
  float eps;

  Block(const variable_list& w, double norm_eps)
      : width(w[2].size(1)),
        hidden(w[2].size(0)),
        normed(w[0].size(0) > 0),
        norm_weight(w[0].const_data_ptr<float>()),
        norm_bias(w[1].const_data_ptr<float>()),
        in_bias(w[3].const_data_ptr<float>()),
        out_bias(w[5].const_data_ptr<float>()),
        in{w[2].const_data_ptr<float>(), width},
        out{w[4].const_data_ptr<float>(), hidden},
        eps(static_cast<float>(norm_eps)) {}
};

// What a thread needs for one tile.
struct Scratch {
  std::vector<float> normal, before, after, mean, inverse_sd, grad_out, grad_hidden;
  explicit Scratch(const Block& b) {
    const auto wide = static_cast<size_t>(kRowTile * b.width),
               high = static_cast<size_t>(kRowTile * b.hidden),
               rows = static_cast<size_t>(kRowTile);
    normal.resize(wide);
    before.resize(high);
    after.resize(high);
    mean.resize(rows);
    inverse_sd.resize(rows);
    grad_out.resize(wide);
    grad_hidden.resize(high);
  }
};

// From the rows of x at `begin` to scratch: norm(x), and W1 norm(x) + b1. Returns what the first
// product reads.
const float* hidden_rows(const Block& b, const float* x, int64_t begin, int64_t rows, Scratch& s) {
  const float* input = x + begin * b.width;
  if (b.normed) {
    cpu::normalise_rows(input, rows, b.width, b.norm_weight, b.norm_bias, b.eps, s.normal.data(),
                        s.mean.data(), s.inverse_sd.data());
    input = s.normal.data();
  }
  cpu::multiply_bt(rows, b.hidden, b.width, {input, b.width}, b.in, {s.before.data(), b.hidden});
  cpu::add_bias(s.before.data(), rows, b.hidden, b.in_bias);
  return input;
}

// Sums towards the parameters, a thread's part of them.
struct Sums {
  std::vector<float> norm_weight, norm_bias, in, in_bias, out, out_bias;
  explicit Sums(const Block& b)
      : norm_weight(static_cast<size_t>(b.width)),
        norm_bias(norm_weight),
        in(static_cast<size_t>(b.width * b.hidden)),
        in_bias(static_cast<size_t>(b.hidden)),
        out(in),
        out_bias(norm_weight) {}
};

void backward_tile(const Block& b, const float* x, const float* grad, int64_t begin, int64_t rows,
                   const DropoutMask& first, const DropoutMask& second, float* grad_x, Scratch& s,
                   Sums& sums) {
  const float* input = hidden_rows(b, x, begin, rows, s);
  cpu::gelu_and_slope(s.before.data(), rows * b.hidden, s.after.data());
  drop_out_again(first, begin * b.hidden, rows * b.hidden, s.after.data(), s.after.data());
  const float* given = grad + begin * b.width;
  drop_out_again(second, begin * b.width, rows * b.width, given, s.grad_out.data());
  const cpu::Matrix grad_out{s.grad_out.data(), b.width},
      grad_hidden{s.grad_hidden.data(), b.hidden};
  cpu::add_column_sums(grad_out, rows, b.width, sums.out_bias.data());
  cpu::multiply_at(b.width, b.hidden, rows, grad_out, {s.after.data(), b.hidden},
                   {sums.out.data(), b.hidden}, {.old = 1});
  cpu::multiply(rows, b.hidden, b.width, grad_out, b.out, grad_hidden);
  drop_out_again(first, begin * b.hidden, rows * b.hidden, grad_hidden.data, grad_hidden.data);
  cpu::multiply_elements(grad_hidden.data, s.before.data(), rows * b.hidden, grad_hidden.data);
  cpu::add_column_sums(grad_hidden, rows, b.hidden, sums.in_bias.data());
  cpu::multiply_at(b.hidden, b.width, rows, grad_hidden, {input, b.width},
                   {sums.in.data(), b.width}, {.old = 1});
  float* result = grad_x + begin * b.width;
  std::copy(given, given + rows * b.width, result);  // past the block
  if (!b.normed) {
    cpu::multiply(rows, b.width, b.hidden, grad_hidden, b.in, {result, b.width}, {.old = 1});
    return;
  }
  cpu::multiply(rows, b.width, b.hidden, grad_hidden, b.in, grad_out);  // of norm(x)
  cpu::normalise_rows_backward(x + begin * b.width, grad_out.data, rows, b.width, b.norm_weight,
                               s.mean.data(), s.inverse_sd.data(), result, sums.norm_weight.data(),
                               sums.norm_bias.data());
}

class FeedForward : public torch::autograd::Function<FeedForward> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x_given,
                               const torch::Tensor& norm_weight, const torch::Tensor& norm_bias,
                               const torch::Tensor& in_weight, const torch::Tensor& in_bias,
                               const torch::Tensor& out_weight, const torch::Tensor& out_bias,
                               const torch::Tensor& mask, double eps, DropoutMask first,
                               DropoutMask second) {
    const cpu::ProductScope scope(keep_products(*context));
    const torch::Tensor x = x_given.contiguous();
    const variable_list weights = {norm_weight.contiguous(), norm_bias.contiguous(),
                                   in_weight.contiguous(),   in_bias.contiguous(),
                                   out_weight.contiguous(),  out_bias.contiguous()};
    const Block block(weights, eps);
    const int64_t rows = x.numel() / block.width;
    const torch::Tensor y = torch::empty_like(x);
    const float* from = x.const_data_ptr<float>();
    float* to = y.mutable_data_ptr<float>();
    std::vector<Scratch> scratch(static_cast<size_t>(tile_parts(rows)), Scratch(block));
    const auto tile = [&](int64_t part, int64_t begin, int64_t n) {
      Scratch& s = scratch[static_cast<size_t>(part)];
      const int64_t start = begin * block.width, count = n * block.width;
      hidden_rows(block, from, begin, n, s);
      cpu::gelu(s.before.data(), n * block.hidden, s.after.data());
      drop_out(first, begin * block.hidden, n * block.hidden, s.after.data(), s.after.data());
      float* out = to + start;
      cpu::multiply_bt(n, block.width, block.hidden, {s.after.data(), block.hidden}, block.out,
                       {out, block.width});
      cpu::add_bias(out, n, block.width, block.out_bias);
      drop_out(second, start, count, out, out);
      cpu::add(from + start, out, count, out);
    };
    for_each_tile(rows, mask_data(mask), tile, zero_blank(to, block.width));
    variable_list kept = weights;
    kept.push_back(mask);
    kept.push_back(x);
    context->save_for_backward(kept);
    context->saved_data["eps"] = eps;
    save_dropout(*context, "first", first);
    save_dropout(*context, "second", second);
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const cpu::ProductScope scope(kept_products(*context));
    variable_list weights = context->get_saved_variables();
    const torch::Tensor x = weights.back(), grad = gradients[0].contiguous();
    weights.pop_back();
    const torch::Tensor mask = weights.back();
    weights.pop_back();
    const Block block(weights, context->saved_data["eps"].toDouble());
    const DropoutMask first = saved_dropout(*context, "first"),
                      second = saved_dropout(*context, "second");
    const torch::Tensor grad_x = torch::empty_like(x);
    const int64_t rows = x.numel() / block.width;
    const auto parts = static_cast<size_t>(tile_parts(rows));
    std::vector<Scratch> scratch(parts, Scratch(block));
    std::vector<Sums> sums(parts, Sums(block));
    const auto tile = [&](int64_t part, int64_t begin, int64_t n) {
      const auto p = static_cast<size_t>(part);
      backward_tile(block, x.const_data_ptr<float>(), grad.const_data_ptr<float>(), begin, n, first,
                    second, grad_x.mutable_data_ptr<float>(), scratch[p], sums[p]);
    };
    for_each_tile(rows, mask_data(mask), tile,
                  zero_blank(grad_x.mutable_data_ptr<float>(), block.width));
    variable_list result = {grad_x};
    const auto add_up = [&](std::vector<float> Sums::*member, const torch::Tensor& like) {
      result.push_back(total_of(sums, member, like));
    };
    add_up(&Sums::norm_weight, weights[0]);
    add_up(&Sums::norm_bias, weights[1]);
    add_up(&Sums::in, weights[2]);
    add_up(&Sums::in_bias, weights[3]);
    add_up(&Sums::out, weights[4]);
    add_up(&Sums::out_bias, weights[5]);
    result.resize(11);
    return result;
  }
};

class AddProjected : public torch::autograd::Function<AddProjected> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x_given,
                               const torch::Tensor& y_given, const torch::Tensor& weight_given,
                               const torch::Tensor& bias, const torch::Tensor& mask,
                               DropoutMask dropout) {
    const cpu::ProductScope scope(keep_products(*context));
    const torch::Tensor x = x_given.contiguous(), y = y_given.contiguous(),
                        weight = weight_given.contiguous(), sum = torch::empty_like(x);
    const int64_t out = weight.size(0), in = weight.size(1);
    const float *past = x.const_data_ptr<float>(), *from = y.const_data_ptr<float>();
    float* to = sum.mutable_data_ptr<float>();
    const auto tile = [&](int64_t, int64_t begin, int64_t rows) {
      const int64_t start = begin * out, count = rows * out;
      cpu::multiply_bt(rows, out, in, {from + begin * in, in}, {weight.const_data_ptr<float>(), in},
                       {to + start, out});
      cpu::add_bias(to + start, rows, out, bias.const_data_ptr<float>());
      drop_out(dropout, start, count, to + start, to + start);
      cpu::add(past + start, to + start, count, to + start);
    };
    for_each_tile(x.numel() / out, mask_data(mask), tile, zero_blank(to, out));
    save_dropout(*context, "dropout", dropout);
    context->save_for_backward({y, weight, bias, mask});
    return sum;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const cpu::ProductScope scope(kept_products(*context));
    const variable_list kept = context->get_saved_variables();
    const torch::Tensor &y = kept[0], &weight = kept[1];
    const DropoutMask dropout = saved_dropout(*context, "dropout");
    const torch::Tensor grad = gradients[0].contiguous(), grad_y = torch::empty_like(y);
    const int64_t out = weight.size(0), in = weight.size(1), rows = grad.numel() / out;
    struct Part {
      std::vector<float> grad, weight, bias;
    };
    Part part;
    part.grad.resize(static_cast<size_t>(kRowTile * out));
    part.weight.resize(static_cast<size_t>(out * in));
    part.bias.resize(static_cast<size_t>(out));
    std::vector<Part> parts(static_cast<size_t>(tile_parts(rows)), part);
    const auto tile = [&](int64_t number, int64_t begin, int64_t n) {
      Part& own = parts[static_cast<size_t>(number)];
      const cpu::Matrix given{own.grad.data(), out};
      const cpu::ConstMatrix from{y.const_data_ptr<float>() + begin * in, in};
      drop_out_again(dropout, begin * out, n * out, grad.const_data_ptr<float>() + begin * out,
                     given.data);
      cpu::multiply(n, in, out, given, {weight.const_data_ptr<float>(), in},
                    {grad_y.mutable_data_ptr<float>() + begin * in, in});
      cpu::multiply_at(out, in, n, given, from, {own.weight.data(), in}, {.old = 1});
      cpu::add_column_sums(given, n, out, own.bias.data());
    };
    for_each_tile(rows, mask_data(kept[3]), tile, zero_blank(grad_y.mutable_data_ptr<float>(), in));
    return {
        grad, grad_y, total_of(parts, &Part::weight, weight), total_of(parts, &Part::bias, kept[2]),
        {},   {}};
  }
};

class AddDroppedOut : public torch::autograd::Function<AddDroppedOut> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x_given,
                               const torch::Tensor& y_given, const torch::Tensor& mask,
                               DropoutMask dropout) {
    const torch::Tensor x = x_given.contiguous(), y = y_given.contiguous(),
                        sum = torch::empty_like(x);
    const int64_t width = x.size(-1);
    const float *a = x.const_data_ptr<float>(), *b = y.const_data_ptr<float>();
    float* to = sum.mutable_data_ptr<float>();
    const auto tile = [&](int64_t, int64_t begin, int64_t rows) {
      const int64_t start = begin * width, count = rows * width;
      drop_out(dropout, start, count, b + start, to + start);
      cpu::add(a + start, to + start, count, to + start);
    };
    for_each_tile(x.numel() / width, mask_data(mask), tile, zero_blank(to, width));
    save_dropout(*context, "dropout", dropout);
    context->save_for_backward({mask});
    return sum;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const torch::Tensor mask = context->get_saved_variables()[0];
    const DropoutMask dropout = saved_dropout(*context, "dropout");
    const torch::Tensor grad = gradients[0].contiguous(), grad_y = torch::empty_like(grad);
    const int64_t width = grad.size(-1);
    const float* from = grad.const_data_ptr<float>();
    float* to = grad_y.mutable_data_ptr<float>();
    const auto tile = [&](int64_t, int64_t begin, int64_t rows) {
      drop_out_again(dropout, begin * width, rows * width, from + begin * width,
                     to + begin * width);
    };
    for_each_tile(grad.numel() / width, mask_data(mask), tile, zero_blank(to, width));
    return {grad, grad_y, {}, {}};
  }
};

}  // namespace

torch::Tensor feed_forward(const torch::Tensor& x, const FeedForwardWeights& w, double dropout,
                           bool training, const torch::Tensor& mask) {
  const int64_t hidden = x.numel() / w.in_weight.size(1) * w.in_weight.size(0);
  const DropoutMask first = draw_dropout(dropout, training, hidden),
                    second = draw_dropout(dropout, training, x.numel());
  return FeedForward::apply(x, w.norm_weight, w.norm_bias, w.in_weight, w.in_bias, w.out_weight,
                            w.out_bias, kept_mask(mask), w.norm_eps, first, second);
}

torch::Tensor add_projected(const torch::Tensor& x, const torch::Tensor& y,
                            const LinearWeights& layer, double dropout, bool training,
                            const torch::Tensor& mask) {
  return AddProjected::apply(x, y, layer.weight, layer.bias, kept_mask(mask),
                             draw_dropout(dropout, training, x.numel()));
}

torch::Tensor add_dropped_out(const torch::Tensor& x, const torch::Tensor& y, double dropout,
                              bool training, const torch::Tensor& mask) {
  return AddDroppedOut::apply(x, y, kept_mask(mask), draw_dropout(dropout, training, y.numel()));
}

}  // namespace lra
