// What an attention made, added to the rows that it was given.
#include "attention_variants/ops/autograd_state.h"
#include "attention_variants/ops/cpu/layer_tile.h"
#include "attention_variants/ops/cpu/operators.h"
#include "attention_variants/ops/cpu/rounding.h"
#include "attention_variants/ops/heads.h"

namespace lra::ops::cpu {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class AddProjected : public torch::autograd::Function<AddProjected> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x_given,
                               const torch::Tensor& y_given, const torch::Tensor& weight,
                               const torch::Tensor& bias, const torch::Tensor& mask,
                               DropoutMask dropout) {
    const GemmPrecisionScope scope(save_gemm_precision(*context));
    const torch::Tensor x = dense(x_given), y = dense(y_given), sum = torch::empty_like(x);
    const LinearTile layer(weight, bias);
    const StoredRows from(y);
    const float* past = x.const_data_ptr<float>();
    float* to = sum.mutable_data_ptr<float>();
    const int64_t rows_of_all = x.numel() / layer.out;
    RowTileWorkers<TilesBetween> parts(row_tile_workers(rows_of_all), StoredList{from});
    const auto tile = [&](int64_t worker, int64_t begin, int64_t rows) {
      const int64_t start = begin * layer.out;
      layer.multiply(from.read(begin, rows, parts[worker][0]), rows, to + start);
      add_dropped_out(layer, dropout, past + start, begin, rows, to + start);
    };
    parallel_for_row_tiles(rows_of_all, mask_data(mask), tile, zero_skipped_rows(to, layer.out));
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
    const torch::Tensor grad = dense(gradients[0]), grad_y = torch::empty_like(y);
    const int64_t rows = grad.numel() / layer.out;
    const StoredRows from(y), to(grad_y);
    RowTileWorkers<LayerPart> parts(row_tile_workers(rows), layer, StoredList{from, to});
    const auto tile = [&](int64_t worker, int64_t begin, int64_t n) {
      const LayerPart& own = parts[worker];
      const int64_t start = begin * layer.out;
      reapply_dropout(dropout, start, n * layer.out, grad.const_data_ptr<float>() + start,
                      own.given);
      float* const result = to.to_write(begin, own.between[1]);
      own.layer.backward(layer, from.read(begin, n, own.between[0]), own.given, n, /*old=*/0,
                         result);
      to.store(begin, n, result);
    };
    parallel_for_row_tiles(rows, mask_data(kept[3]), tile, zero_skipped_rows(to));
    return {grad,
            grad_y,
            parts.sum([](const LayerPart& part) { return part.layer.weight; }, kept[1]),
            parts.sum([](const LayerPart& part) { return part.layer.bias; }, kept[2]),
            {},
            {}};
  }
};

class AddDroppedOut : public torch::autograd::Function<AddDroppedOut> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x_given,
                               const torch::Tensor& y_given, const torch::Tensor& mask,
                               DropoutMask dropout) {
    const torch::Tensor x = dense(x_given), y = dense(y_given), sum = torch::empty_like(x);
    const int64_t width = x.size(-1);
    const StoredRows from(y);
    const float* a = x.const_data_ptr<float>();
    float* to = sum.mutable_data_ptr<float>();
    RowTileWorkers<TilesBetween> parts(row_tile_workers(x.numel() / width), StoredList{from});
    const auto tile = [&](int64_t worker, int64_t begin, int64_t rows) {
      const int64_t start = begin * width, count = rows * width;
      apply_dropout(dropout, start, count, from.read(begin, rows, parts[worker][0]), to + start);
      add(a + start, to + start, count, to + start);
    };
    parallel_for_row_tiles(x.numel() / width, mask_data(mask), tile, zero_skipped_rows(to, width));
    save_dropout(*context, "dropout", dropout);
    context->saved_data["type"] = y.scalar_type();
    context->save_for_backward({mask});
    return sum;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const torch::Tensor mask = saved_tensors(*context)[0];
    const DropoutMask dropout = saved_dropout(*context, "dropout");
    const torch::ScalarType type = context->saved_data.at("type").toScalarType();
    const torch::Tensor grad = dense(gradients[0]),
                        grad_y = torch::empty_like(grad, grad.options().dtype(type));
    const int64_t width = grad.size(-1), all = grad.numel() / width;
    const float* from = grad.const_data_ptr<float>();
    const StoredRows to(grad_y);
    RowTileWorkers<TilesBetween> parts(row_tile_workers(all), StoredList{to});
    const auto tile = [&](int64_t worker, int64_t begin, int64_t rows) {
      float* const result = to.to_write(begin, parts[worker][0]);
      reapply_dropout(dropout, begin * width, rows * width, from + begin * width, result);
      to.store(begin, rows, result);
    };
    parallel_for_row_tiles(all, mask_data(mask), tile, zero_skipped_rows(to));
    return {grad, grad_y, {}, {}};
  }
};

// In bfloat16 as it is, else as x.
torch::Tensor stored(const torch::Tensor& y, const torch::Tensor& x) {
  return y.scalar_type() == torch::kBFloat16 ? y : y.to(x.scalar_type());
}

}  // namespace

torch::Tensor run(const AddProjectedCall& call) {
  return AddProjected::apply(call.x, stored(call.y, call.x), float_parameter(call.layer.weight),
                             float_parameter(call.layer.bias), kept_mask(call.mask),
                             make_dropout_mask(call.dropout, call.training, call.x.numel()));
}

torch::Tensor run(const AddDroppedOutCall& call) {
  return AddDroppedOut::apply(call.x, stored(call.y, call.x), kept_mask(call.mask),
                              make_dropout_mask(call.dropout, call.training, call.y.numel()));
}

}  // namespace lra::ops::cpu
