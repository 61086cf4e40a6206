#include <algorithm>
#include <utility>
#include <vector>

#include "attention_variants/ops/autocast.h"
#include "attention_variants/ops/autograd_state.h"
#include "attention_variants/ops/cpu/layer_tile.h"
#include "attention_variants/ops/cpu/operators.h"
#include "attention_variants/ops/cpu/rounding.h"
#include "attention_variants/ops/cpu/row_tiles.h"
#include "attention_variants/ops/heads.h"

namespace lra::ops::cpu {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

int64_t rows_of(const torch::Tensor& x) { return x.numel() / x.size(-1); }

// For results of products of x [...,width].
torch::Tensor empty_results(const torch::Tensor& x, int64_t width) {
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes.back() = width;
  return torch::empty(sizes, x.options().dtype(product_type(x)));
}

// Rows of y [rows,width] that are padding become zero.
void blank_padding(const bool* mask, int64_t rows, int64_t width, float* y) {
  for (int64_t r = 0; r < rows; ++r) {
    if (!mask[r]) zero_skipped_rows(y, width)(r, 1);
  }
}

// The layers among the tensors that LinearLayers keeps: weight and bias of one after the other.
std::vector<LinearTile> layers_of(at::TensorList parameters) {
  std::vector<LinearTile> layers;
  for (size_t i = 0; i < parameters.size(); i += 2)
    layers.emplace_back(parameters[i], parameters[i + 1]);
  return layers;
}

// Floats between a tile of any of these and the loops.
int64_t between(const StoredList& all) {
  int64_t most = 0;
  for (const StoredRows& one : all) most = std::max(most, one.between());
  return most;
}

// What a worker needs in the forward pass of LinearLayers.
struct LayersForward {
  NormRows normed;
  float *x, *y;

  LayersForward(const NormTile& of, const StoredRows& input, const StoredList& outputs,
                Arena& arena)
      : normed(of, arena), x(arena.take(input.between())), y(arena.take(between(outputs))) {}
};

// What a worker adds up in the backward pass of LinearLayers.
struct LayersPart {
  NormRows normed;
  NormGrad norm;
  float* normal_grad;  // of a tile after the norm
  float* tokens;       // a tile with padding, without it
  float *x, *past, *grad_x, *grad;
  std::vector<LinearGrad> layers;

  LayersPart(const NormTile& of, const std::vector<LinearTile>& tiles, const StoredRows& input,
             const StoredList& gradients, Arena& arena)
      : normed(of, arena),
        norm(of, arena),
        normal_grad(arena.take(kRowTile * of.width)),
        tokens(arena.take(kRowTile * tiles.front().in)),
        x(arena.take(input.between())),
        past(arena.take(input.between())),
        grad_x(arena.take(input.between())),
        grad(arena.take(between(gradients))) {
    for (const LinearTile& tile : tiles) layers.emplace_back(tile, arena);
  }
};

class LinearLayers : public torch::autograd::Function<LinearLayers> {
 public:
  static variable_list forward(AutogradContext* context, const torch::Tensor& x,
                               const torch::Tensor& norm_weight, const torch::Tensor& norm_bias,
                               const torch::Tensor& mask, at::TensorList parameters, double eps) {
    const GemmPrecisionScope scope(save_gemm_precision(*context));
    const std::vector<LinearTile> layers = layers_of(parameters);
    const NormTile norm(norm_weight, norm_bias, eps);
    variable_list outputs;
    for (const LinearTile& layer : layers) outputs.push_back(empty_results(x, layer.out));
    const StoredRows from(x);
    const StoredList to(outputs.begin(), outputs.end());
    RowTileWorkers<LayersForward> parts(row_tile_workers(rows_of(x)), norm, from, to);
    const auto tile = [&](int64_t worker, int64_t begin, int64_t rows) {
      const LayersForward& own = parts[worker];
      const float* input = own.normed.forward(norm, from.read(begin, rows, own.x), rows);
      for (size_t i = 0; i < layers.size(); ++i) {
        float* const y = to[i].to_write(begin, own.y);
        layers[i].forward(input, rows, y);
        to[i].store(begin, rows, y);
      }
    };
    parallel_for_row_tiles(rows_of(x), mask_data(mask), tile, [&](int64_t begin, int64_t rows) {
      for (const StoredRows& one : to) one.blank(begin, rows);
    });
    variable_list kept = {x, norm_weight, norm_bias, mask};
    kept.insert(kept.end(), parameters.begin(), parameters.end());
    context->save_for_backward(kept);
    context->saved_data["eps"] = eps;
    outputs.push_back(x);
    return outputs;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const GemmPrecisionScope scope(saved_gemm_precision(*context));
    const variable_list kept = saved_tensors(*context);
    const torch::Tensor &x = kept[0], &mask = kept[3];
    const at::TensorList parameters = at::TensorList(kept).slice(4);
    const std::vector<LinearTile> layers = layers_of(parameters);
    const NormTile norm(kept[1], kept[2], context->saved_data["eps"].toDouble());
    for (torch::Tensor& gradient : gradients) gradient = dense(gradient);
    const torch::Tensor grad_x = torch::empty_like(x);
    const int64_t width = x.size(-1);
    const StoredRows stored_x(x), stored_past(gradients.back()), stored_grad_x(grad_x);
    const StoredList given(gradients.begin(), gradients.end() - 1);
    RowTileWorkers<LayersPart> parts(row_tile_workers(rows_of(x)), norm, layers, stored_x, given);
    const bool* const keep = mask_data(mask);
    const auto tile = [&](int64_t worker, int64_t begin, int64_t rows) {
      const LayersPart& own = parts[worker];
      const float *from = stored_x.read(begin, rows, own.x),
                  *past = stored_past.read(begin, rows, own.past);
      float *to = stored_grad_x.to_write(begin, own.grad_x), *grad = norm ? own.normal_grad : to;
      // Gradients of padding are zero, and times what stands there they should be.
      if (keep != nullptr)
        from = without_padding({from, width}, keep + begin, rows, width, own.tokens).data;
      const float* input = own.normed.forward(norm, from, rows);
      if (!norm) std::copy(past, past + rows * width, to);
      for (size_t i = 0; i < layers.size(); ++i) {
        own.layers[i].backward(layers[i], input, given[i].read(begin, rows, own.grad), rows,
                               /*old=*/norm && i == 0 ? 0.0F : 1.0F, grad);
      }
      if (norm)
        own.norm.backward(norm, from, own.normed.mean, own.normed.inverse_sd, grad, rows, past, to);
      stored_grad_x.store(begin, rows, to);
    };
    parallel_for_row_tiles(rows_of(x), keep, tile, zero_skipped_rows(stored_grad_x));
    const auto sum = [&](auto of, size_t parameter) { return parts.sum(of, kept[parameter]); };
    variable_list result = {grad_x,
                            sum([](const LayersPart& part) { return part.norm.weight; }, 1),
                            sum([](const LayersPart& part) { return part.norm.bias; }, 2),
                            {}};
    for (size_t i = 0; i < layers.size(); ++i) {
      result.push_back(
          sum([i](const LayersPart& part) { return part.layers[i].weight; }, 4 + 2 * i));
      result.push_back(sum([i](const LayersPart& part) { return part.layers[i].bias; }, 5 + 2 * i));
    }
    result.emplace_back();
    return result;
  }
};

class MaskedLayer : public torch::autograd::Function<MaskedLayer> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x_given,
                               const torch::Tensor& weight, const torch::Tensor& bias,
                               const torch::Tensor& mask_given) {
    const GemmPrecisionScope scope(save_gemm_precision(*context));
    const torch::Tensor x = dense(x_given), mask = dense(mask_given);
    const LinearTile layer(weight, bias);
    const torch::Tensor y = empty_results(x, layer.out);
    const StoredRows from(x), to(y);
    RowTileWorkers<TilesBetween> parts(row_tile_workers(rows_of(x)), StoredList{from, to});
    const auto tile = [&](int64_t worker, int64_t begin, int64_t rows) {
      float* const result = to.to_write(begin, parts[worker][1]);
      layer.forward(from.read(begin, rows, parts[worker][0]), rows, result);
      blank_padding(mask.const_data_ptr<bool>() + begin, rows, layer.out, result);
      to.store(begin, rows, result);
    };
    parallel_for_row_tiles(rows_of(x), mask_data(mask), tile, zero_skipped_rows(to));
    context->save_for_backward({x, weight, bias, mask});
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const GemmPrecisionScope scope(saved_gemm_precision(*context));
    const variable_list kept = saved_tensors(*context);
    const torch::Tensor &x = kept[0], &mask = kept[3];
    const LinearTile layer(kept[1], kept[2]);
    const torch::Tensor grad = dense(gradients[0]), grad_x = torch::empty_like(x);
    const StoredRows from(x), stored_grad(grad), to(grad_x);
    RowTileWorkers<LayerPart> parts(row_tile_workers(rows_of(x)), layer,
                                    StoredList{from, stored_grad, to});
    const auto tile = [&](int64_t worker, int64_t begin, int64_t rows) {
      const LayerPart& own = parts[worker];
      const bool* keep = mask.const_data_ptr<bool>() + begin;
      const float* given = stored_grad.read(begin, rows, own.between[1]);
      if (!std::all_of(keep, keep + rows, [](bool token) { return token; })) {
        std::copy(given, given + rows * layer.out, own.given);
        blank_padding(keep, rows, layer.out, own.given);
        given = own.given;
      }
      float* const result = to.to_write(begin, own.between[2]);
      own.layer.backward(layer, from.read(begin, rows, own.between[0]), given, rows, /*old=*/0,
                         result);
      to.store(begin, rows, result);
    };
    parallel_for_row_tiles(rows_of(x), mask_data(mask), tile, zero_skipped_rows(to));
    return {grad_x,
            parts.sum([](const LayerPart& part) { return part.layer.weight; }, kept[1]),
            parts.sum([](const LayerPart& part) { return part.layer.bias; }, kept[2]),
            {}};
  }
};

}  // namespace

bool takes(const Place& place, const AnyRowsShape&) { return is_cpu_stored(place); }

LinearRows run(const LinearCall& call) {
  const torch::Tensor none = torch::empty({0}, torch::kFloat);
  const auto& norm = call.norm;
  variable_list parameters;
  for (const LinearWeights& layer : call.layers)
    parameters.insert(parameters.end(),
                      {float_parameter(layer.weight), float_parameter(layer.bias)});
  variable_list outputs =
      LinearLayers::apply(dense(call.x), norm ? float_parameter(norm->weight) : none,
                          norm ? float_parameter(norm->bias) : none, kept_mask(call.mask),
                          at::TensorList(parameters), norm ? norm->eps : 0.0);
  LinearRows rows{.y = {}, .x = outputs.back()};
  outputs.pop_back();
  rows.y = std::move(outputs);
  return rows;
}

torch::Tensor run(const MaskedLinearCall& call) {
  return MaskedLayer::apply(call.x, float_parameter(call.layer.weight),
                            float_parameter(call.layer.bias), call.mask);
}

}  // namespace lra::ops::cpu
