#include <algorithm>

#include "attention_variants/ops/autograd_state.h"
#include "attention_variants/ops/cpu/kernels/rows/gates.h"
#include "attention_variants/ops/cpu/kernels/rows/row_ops.h"
#include "attention_variants/ops/cpu/layer_tile.h"
#include "attention_variants/ops/cpu/operators.h"
#include "attention_variants/ops/cpu/rounding.h"
#include "attention_variants/ops/heads.h"

namespace lra::ops::cpu {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// A block as the loops see it.
struct Block {
  NormTile norm;
  LinearTile in, out;  // D -> F, F -> D

  Block(const variable_list& w, double eps)
      : norm(w[0], w[1], eps), in(w[2], w[3]), out(w[4], w[5]) {}
};

// What a worker needs for a tile: W1 norm(x), and what follows from it.
struct Expanded {
  NormRows normed;
  float *before, *after;  // [kRowTile,F]

  Expanded(const Block& b, Arena& arena)
      : normed(b.norm, arena),
        before(arena.take(kRowTile * b.in.out)),
        after(arena.take(kRowTile * b.in.out)) {}

  // Returns what the product read; calls body(elements before, after, first of all, count) for
  // parts of W1 norm(x) + b1.
  template <class Body>
  const float* expand(const Block& b, const float* x, int64_t rows, const Body& body) const {
    const float* input = normed.forward(b.norm, x, rows);
    b.in.multiply(input, rows, before);
    const int64_t hidden = b.in.out;
    for_parts(rows, hidden, [&](int64_t begin, int64_t n) {
      float* const part = before + begin * hidden;
      add_bias(part, n, hidden, b.in.bias);
      body(part, after + begin * hidden, begin * hidden, n * hidden);
    });
    return input;
  }
};

struct BackwardPart {
  Expanded expanded;
  NormGrad norm;
  LinearGrad in, out;
  float *grad_out, *grad_hidden;  // [kRowTile,D], [kRowTile,F]

  BackwardPart(const Block& b, Arena& arena)
      : expanded(b, arena),
        norm(b.norm, arena),
        in(b.in, arena),
        out(b.out, arena),
        grad_out(arena.take(kRowTile * b.out.out)),
        grad_hidden(arena.take(kRowTile * b.in.out)) {}
};

// Of the rows from `begin` on, at which x, grad and grad_x point.
void backward_tile(const Block& b, const float* x, const float* grad, int64_t begin, int64_t rows,
                   const DropoutMask& first, const DropoutMask& second, float* grad_x,
                   const BackwardPart& own) {
  const int64_t width = b.out.out, hidden = b.in.out;
  const auto& [normed, before, after] = own.expanded;
  float *const grad_out = own.grad_out, *const grad_hidden = own.grad_hidden;
  const float* input =
      own.expanded.expand(b, x, rows, [&](float* given, float* to, int64_t at, int64_t count) {
        gelu_and_slope(given, count, to);
        reapply_dropout(first, begin * hidden + at, count, to, to);
      });
  reapply_dropout(second, begin * width, rows * width, grad, grad_out);
  own.out.backward(b.out, after, grad_out, rows, /*old=*/0, grad_hidden);
  for_parts(rows, hidden, [&](int64_t from, int64_t n) {
    const int64_t at = from * hidden, count = n * hidden;
    float* const part = grad_hidden + at;
    reapply_dropout(first, begin * hidden + at, count, part, part);
    multiply_elements(part, before + at, count, part);
    own.in.add_bias_grad(b.in, part, n);
  });
  if (!b.norm) {
    std::copy(grad, grad + rows * width, grad_x);  // past the block
    own.in.backward_of_products(b.in, input, grad_hidden, rows, /*old=*/1, grad_x);
    return;
  }
  own.in.backward_of_products(b.in, input, grad_hidden, rows, /*old=*/0, grad_out);  // of norm(x)
  own.norm.backward(b.norm, x, normed.mean, normed.inverse_sd, grad_out, rows, /*past=*/grad,
                    grad_x);
}

class FeedForward : public torch::autograd::Function<FeedForward> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x_given,
                               const torch::Tensor& norm_weight, const torch::Tensor& norm_bias,
                               const torch::Tensor& in_weight, const torch::Tensor& in_bias,
                               const torch::Tensor& out_weight, const torch::Tensor& out_bias,
                               const torch::Tensor& mask, double eps, DropoutMask first,
                               DropoutMask second) {
    const GemmPrecisionScope scope(save_gemm_precision(*context));
    const torch::Tensor x = dense(x_given);
    const variable_list weights = {dense(norm_weight), dense(norm_bias),  dense(in_weight),
                                   dense(in_bias),     dense(out_weight), dense(out_bias)};
    const Block block(weights, eps);
    const int64_t width = block.out.out, hidden = block.in.out, rows = x.numel() / width;
    const torch::Tensor y = torch::empty_like(x);
    const float* from = x.const_data_ptr<float>();
    float* to = y.mutable_data_ptr<float>();
    RowTileWorkers<Expanded> parts(row_tile_workers(rows), block);
    const auto tile = [&](int64_t worker, int64_t begin, int64_t n) {
      float* const out = to + begin * width;
      parts[worker].expand(block, from + begin * width, n,
                           [&](const float* given, float* after, int64_t at, int64_t count) {
                             gelu_of(Gelu::exact, given, count, after);
                             apply_dropout(first, begin * hidden + at, count, after, after);
                           });
      block.out.multiply(parts[worker].after, n, out);
      add_dropped_out(block.out, second, from + begin * width, begin, n, out);
    };
    parallel_for_row_tiles(rows, mask_data(mask), tile, zero_skipped_rows(to, width));
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
    const GemmPrecisionScope scope(saved_gemm_precision(*context));
    variable_list weights = saved_tensors(*context);
    const torch::Tensor x = weights.back(), grad = dense(gradients[0]);
    weights.pop_back();
    const torch::Tensor mask = weights.back();
    weights.pop_back();
    const Block block(weights, context->saved_data["eps"].toDouble());
    const DropoutMask first = saved_dropout(*context, "first"),
                      second = saved_dropout(*context, "second");
    const torch::Tensor grad_x = torch::empty_like(x);
    const int64_t width = block.out.out, rows = x.numel() / width;
    RowTileWorkers<BackwardPart> parts(row_tile_workers(rows), block);
    const auto tile = [&](int64_t worker, int64_t begin, int64_t n) {
      const int64_t start = begin * width;
      backward_tile(block, x.const_data_ptr<float>() + start, grad.const_data_ptr<float>() + start,
                    begin, n, first, second, grad_x.mutable_data_ptr<float>() + start,
                    parts[worker]);
    };
    parallel_for_row_tiles(rows, mask_data(mask), tile,
                           zero_skipped_rows(grad_x.mutable_data_ptr<float>(), width));
    using Part = BackwardPart;
    const auto total = [&](auto member, auto sums, size_t parameter) {
      return parts.sum([=](const Part& part) { return part.*member.*sums; }, weights[parameter]);
    };
    variable_list result = {grad_x,
                            total(&Part::norm, &NormGrad::weight, 0),
                            total(&Part::norm, &NormGrad::bias, 1),
                            total(&Part::in, &LinearGrad::weight, 2),
                            total(&Part::in, &LinearGrad::bias, 3),
                            total(&Part::out, &LinearGrad::weight, 4),
                            total(&Part::out, &LinearGrad::bias, 5)};
    result.resize(11);
    return result;
  }
};

}  // namespace

bool takes(const Place& place, const DroppedRowsShape& shape) {
  return is_cpu_float(place) && shape.dropout < 1 && shape.gelu == Gelu::exact;
}

torch::Tensor run(const FeedForwardCall& call) {
  const FeedForwardWeights& w = call.weights;
  const int64_t hidden = call.x.numel() / w.in_weight.size(1) * w.in_weight.size(0);
  const DropoutMask first = make_dropout_mask(call.dropout, call.training, hidden),
                    second = make_dropout_mask(call.dropout, call.training, call.x.numel());
  return FeedForward::apply(call.x, w.norm_weight, w.norm_bias, w.in_weight, w.in_bias,
                            w.out_weight, w.out_bias, kept_mask(call.mask), w.norm_eps, first,
                            second);
}

}  // namespace lra::ops::cpu
