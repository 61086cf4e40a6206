// What an attention made, added to the rows that it was given.
#include "attention_variants/ops/autograd_state.h"
#include "attention_variants/ops/cpu/layer_tile.h"
#include "attention_variants/ops/cpu/operators.h"
#include "attention_variants/ops/cpu/rounding.h"

namespace lra::ops::cpu {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// What a worker adds up in the backward pass of AddProjected.
struct ProjectedPart {
  LinearGrad layer;
  float* given;  // the gradient of a tile before its dropout

  ProjectedPart(const LinearTile& of, Arena& arena)
      : layer(of, arena), given(arena.take(kRowTile * of.out)) {}
};

class AddProjected : public torch::autograd::Function<AddProjected> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x_given,
                               const torch::Tensor& y_given, const torch::Tensor& weight_given,
                               const torch::Tensor& bias, const torch::Tensor& mask,
                               DropoutMask dropout) {
    const GemmPrecisionScope scope(save_gemm_precision(*context));
    const torch::Tensor x = x_given.contiguous(), y = y_given.contiguous(),
                        weight = weight_given.contiguous(), sum = torch::empty_like(x);
    const LinearTile layer(weight, bias);
    const float *past = x.const_data_ptr<float>(), *from = y.const_data_ptr<float>();
    float* to = sum.mutable_data_ptr<float>();
    const auto tile = [&](int64_t, int64_t begin, int64_t rows) {
      const int64_t start = begin * layer.out;
      layer.multiply(from + begin * layer.in, rows, to + start);
      add_dropped_out(layer, dropout, past + start, begin, rows, to + start);
    };
    parallel_for_row_tiles(x.numel() / layer.out, mask_data(mask), tile,
                           zero_skipped_rows(to, layer.out));
    save_dropout(*context, "dropout", dropout);
    context->save_for_backward({y, weight, bias, mask});
    return sum;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const GemmPrecisionScope scope(saved_gemm_precision(*context));
    const variable_list kept = saved_tensors(*context);
    const torch::Tensor& y = kept[0];
    const LinearTile layer(kept[1], kept[2]);
    const DropoutMask dropout = saved_dropout(*context, "dropout");
    const torch::Tensor grad = gradients[0].contiguous(), grad_y = torch::empty_like(y);
    const int64_t rows = grad.numel() / layer.out;
    RowTileWorkers<ProjectedPart> parts(row_tile_workers(rows), layer);
    const auto tile = [&](int64_t worker, int64_t begin, int64_t n) {
      const ProjectedPart& own = parts[worker];
      const int64_t start = begin * layer.out;
      reapply_dropout(dropout, start, n * layer.out, grad.const_data_ptr<float>() + start,
                      own.given);
      own.layer.backward(layer, y.const_data_ptr<float>() + begin * layer.in, own.given, n,
                         /*old=*/0, grad_y.mutable_data_ptr<float>() + begin * layer.in);
    };
    parallel_for_row_tiles(rows, mask_data(kept[3]), tile,
                           zero_skipped_rows(grad_y.mutable_data_ptr<float>(), layer.in));
    return {grad,
            grad_y,
            parts.sum([](const ProjectedPart& part) { return part.layer.weight; }, kept[1]),
            parts.sum([](const ProjectedPart& part) { return part.layer.bias; }, kept[2]),
            {},
            {}};
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
      apply_dropout(dropout, start, count, b + start, to + start);
      add(a + start, to + start, count, to + start);
    };
    parallel_for_row_tiles(x.numel() / width, mask_data(mask), tile, zero_skipped_rows(to, width));
    save_dropout(*context, "dropout", dropout);
    context->save_for_backward({mask});
    return sum;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const torch::Tensor mask = saved_tensors(*context)[0];
    const DropoutMask dropout = saved_dropout(*context, "dropout");
    const torch::Tensor grad = gradients[0].contiguous(), grad_y = torch::empty_like(grad);
    const int64_t width = grad.size(-1);
    const float* from = grad.const_data_ptr<float>();
    float* to = grad_y.mutable_data_ptr<float>();
    const auto tile = [&](int64_t, int64_t begin, int64_t rows) {
      reapply_dropout(dropout, begin * width, rows * width, from + begin * width,
                      to + begin * width);
    };
    parallel_for_row_tiles(grad.numel() / width, mask_data(mask), tile,
                           zero_skipped_rows(to, width));
    return {grad, grad_y, {}, {}};
  }
};

}  // namespace

torch::Tensor run(const AddProjectedCall& call) {
  // y is of bfloat16 where an attention of LibTorch's operators runs under autocast.
  return AddProjected::apply(call.x, call.y.to(call.x.scalar_type()), call.layer.weight,
                             call.layer.bias, kept_mask(call.mask),
                             make_dropout_mask(call.dropout, call.training, call.x.numel()));
}

torch::Tensor run(const AddDroppedOutCall& call) {
  return AddDroppedOut::apply(call.x, call.y, kept_mask(call.mask),
                              make_dropout_mask(call.dropout, call.training, call.y.numel()));
}

}  // namespace lra::ops::cpu
