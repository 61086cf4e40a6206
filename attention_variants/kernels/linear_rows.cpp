#include "attention_variants/kernels/linear_rows.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <vector>

#include "attention_variants/kernels/cpu/matrix.h"
#include "attention_variants/kernels/cpu/row_math.h"
#include "attention_variants/kernels/kernels.h"
#include "attention_variants/kernels/row_parts.h"

namespace lra {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// One layer as the loops see it.
struct Layer {
  int64_t in, out;
  cpu::ConstMatrix weight;  // [out,in]
  const float* bias;

  Layer(const torch::Tensor& w, const torch::Tensor& b)
      : in(w.size(1)),
        out(w.size(0)),
        weight{w.const_data_ptr<float>(), in},
        bias(b.const_data_ptr<float>()) {}
};

// A thread's part of the sums towards a layer's parameters.
struct Sums {
  std::vector<float> weight, bias;
  explicit Sums(const Layer& layer)
      : weight(static_cast<size_t>(layer.in * layer.out)), bias(static_cast<size_t>(layer.out)) {}
};

void forward_tile(const Layer& layer, const float* x, int64_t rows, const bool* mask, float* y) {
  cpu::multiply_bt(rows, layer.out, layer.in, {x, layer.in}, layer.weight, {y, layer.out});
  cpu::add_bias(y, rows, layer.out, layer.bias);
  for (int64_t r = 0; mask != nullptr && r < rows; ++r) {
    if (!mask[r]) zero_blank(y, layer.out)(r, 1);
  }
}

// Adds to the sums, and to grad_x, or writes it where it is the first to.
void backward_tile(const Layer& layer, const float* x, const float* grad, int64_t rows, bool first,
                   float* grad_x, Sums& sums) {
  cpu::multiply(rows, layer.in, layer.out, {grad, layer.out}, layer.weight, {grad_x, layer.in},
                {.old = first ? 0.0F : 1.0F});
  cpu::multiply_at(layer.out, layer.in, rows, {grad, layer.out}, {x, layer.in},
                   {sums.weight.data(), layer.in}, {.old = 1});
  cpu::add_column_sums({grad, layer.out}, rows, layer.out, sums.bias.data());
}

int64_t rows_of(const torch::Tensor& x) { return x.numel() / x.size(-1); }

torch::Tensor empty_rows(const torch::Tensor& x, int64_t width) {
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes.back() = width;
  return torch::empty(sizes, x.options());
}

// Layer normalisation as the loops see it; none where the weight is empty.
struct Norm {
  bool given;
  int64_t width;
  const float *weight, *bias;
  float eps;

  Norm(const torch::Tensor& w, const torch::Tensor& b, int64_t columns, double e)
      : given(w.numel() > 0),
        width(columns),
        weight(w.const_data_ptr<float>()),
        bias(b.const_data_ptr<float>()),
        eps(static_cast<float>(e)) {}
};

// What a thread needs for a tile of rows that are normalised, and its sums towards the norm's
// parameters.
struct NormTile {
  std::vector<float> rows, grad, mean, inverse_sd, weight, bias;

  explicit NormTile(const Norm& norm) {
    if (!norm.given) return;
    rows.resize(static_cast<size_t>(kRowTile * norm.width));
    mean.resize(static_cast<size_t>(kRowTile));
    inverse_sd.resize(static_cast<size_t>(kRowTile));
    weight.resize(static_cast<size_t>(norm.width));
    bias.resize(static_cast<size_t>(norm.width));
    grad.resize(rows.size());
  }

  // What the layers read of `count` rows of x.
  const float* read(const Norm& norm, const float* x, int64_t count) {
    if (!norm.given) return x;
    cpu::normalise_rows(x, count, norm.width, norm.weight, norm.bias, norm.eps, rows.data(),
                        mean.data(), inverse_sd.data());
    return rows.data();
  }
};

class ThreeLayers : public torch::autograd::Function<ThreeLayers> {
 public:
  static variable_list forward(AutogradContext* context, const torch::Tensor& x,
                               const torch::Tensor& norm_weight, const torch::Tensor& norm_bias,
                               const torch::Tensor& w0, const torch::Tensor& b0,
                               const torch::Tensor& w1, const torch::Tensor& b1,
                               const torch::Tensor& w2, const torch::Tensor& b2,
                               const torch::Tensor& mask, double eps) {
    const cpu::ProductScope scope(keep_products(*context));
    const std::array<Layer, 3> layers = {Layer(w0, b0), Layer(w1, b1), Layer(w2, b2)};
    const Norm norm(norm_weight, norm_bias, layers[0].in, eps);
    variable_list outputs;
    for (const Layer& layer : layers) outputs.push_back(empty_rows(x, layer.out));
    const float* from = x.const_data_ptr<float>();
    std::vector<NormTile> normed(static_cast<size_t>(tile_parts(rows_of(x))), NormTile(norm));
    const auto tile = [&](int64_t part, int64_t begin, int64_t rows) {
      const float* input =
          normed[static_cast<size_t>(part)].read(norm, from + begin * layers[0].in, rows);
      for (size_t i = 0; i < 3; ++i) {
        forward_tile(layers[i], input, rows, nullptr,
                     outputs[i].mutable_data_ptr<float>() + begin * layers[i].out);
      }
    };
    for_each_tile(rows_of(x), mask_data(mask), tile, [&](int64_t begin, int64_t rows) {
      for (size_t i = 0; i < 3; ++i)
        zero_blank(outputs[i].mutable_data_ptr<float>(), layers[i].out)(begin, rows);
    });
    context->save_for_backward({x, norm_weight, norm_bias, w0, b0, w1, b1, w2, b2, mask});
    context->saved_data["eps"] = eps;
    outputs.push_back(x);
    return outputs;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const cpu::ProductScope scope(kept_products(*context));
    const variable_list kept = context->get_saved_variables();
    const torch::Tensor& x = kept[0];
    const std::array<Layer, 3> layers = {Layer(kept[3], kept[4]), Layer(kept[5], kept[6]),
                                         Layer(kept[7], kept[8])};
    const int64_t width = layers[0].in;
    const Norm norm(kept[1], kept[2], width, context->saved_data["eps"].toDouble());
    for (torch::Tensor& gradient : gradients) gradient = gradient.contiguous();
    const torch::Tensor grad_x = torch::empty_like(x);
    const auto parts = static_cast<size_t>(tile_parts(rows_of(x)));
    std::vector<NormTile> normed(parts, NormTile(norm));
    std::array<std::vector<Sums>, 3> sums;
    for (size_t i = 0; i < 3; ++i) sums[i].resize(parts, Sums(layers[i]));
    const auto tile = [&](int64_t part, int64_t begin, int64_t rows) {
      NormTile& n = normed[static_cast<size_t>(part)];
      const float *from = x.const_data_ptr<float>() + begin * width,
                  *past = gradients[3].const_data_ptr<float>() + begin * width;
      float* to = grad_x.mutable_data_ptr<float>() + begin * width;
      const float* input = n.read(norm, from, rows);
      std::copy(past, past + rows * width, to);
      for (size_t i = 0; i < 3; ++i) {
        backward_tile(layers[i], input,
                      gradients[i].const_data_ptr<float>() + begin * layers[i].out, rows,
                      /*first=*/norm.given && i == 0, norm.given ? n.grad.data() : to,
                      sums[i][static_cast<size_t>(part)]);
      }
      if (norm.given) {
        cpu::normalise_rows_backward(from, n.grad.data(), rows, width, norm.weight, n.mean.data(),
                                     n.inverse_sd.data(), to, n.weight.data(), n.bias.data());
      }
    };
    for_each_tile(rows_of(x), mask_data(kept[9]), tile,
                  zero_blank(grad_x.mutable_data_ptr<float>(), width));
    variable_list result = {grad_x};
    if (norm.given) {
      result.push_back(total_of(normed, &NormTile::weight, kept[1]));
      result.push_back(total_of(normed, &NormTile::bias, kept[2]));
    } else {
      result.resize(3);
    }
    for (size_t i = 0; i < 3; ++i) {
      result.push_back(total_of(sums[i], &Sums::weight, kept[3 + 2 * i]));
      result.push_back(total_of(sums[i], &Sums::bias, kept[4 + 2 * i]));
    }
    result.resize(11);
    return result;
  }
};

class MaskedLayer : public torch::autograd::Function<MaskedLayer> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x_given,
                               const torch::Tensor& weight, const torch::Tensor& bias,
                               const torch::Tensor& mask_given) {
    const cpu::ProductScope scope(keep_products(*context));
    const torch::Tensor x = x_given.contiguous(), mask = mask_given.contiguous();
    const Layer layer(weight, bias);
    const torch::Tensor y = empty_rows(x, layer.out);
    const auto tile = [&](int64_t, int64_t begin, int64_t rows) {
      forward_tile(layer, x.const_data_ptr<float>() + begin * layer.in, rows,
                   mask.const_data_ptr<bool>() + begin,
                   y.mutable_data_ptr<float>() + begin * layer.out);
    };
    for_each_tile(rows_of(x), mask_data(mask), tile,
                  zero_blank(y.mutable_data_ptr<float>(), layer.out));
    context->save_for_backward({x, weight, bias, mask});
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const cpu::ProductScope scope(kept_products(*context));
    const variable_list kept = context->get_saved_variables();
    const torch::Tensor &x = kept[0], &mask = kept[3];
    const Layer layer(kept[1], kept[2]);
    const torch::Tensor grad = gradients[0].contiguous(), grad_x = torch::empty_like(x);
    std::vector<Sums> sums(static_cast<size_t>(tile_parts(rows_of(x))), Sums(layer));
    const auto tile = [&](int64_t part, int64_t begin, int64_t rows) {
      const bool* keep = mask.const_data_ptr<bool>() + begin;
      const float* given = grad.const_data_ptr<float>() + begin * layer.out;
      std::vector<float> masked;
      if (!std::all_of(keep, keep + rows, [](bool token) { return token; })) {
        masked.assign(given, given + rows * layer.out);
        for (int64_t r = 0; r < rows; ++r) {
          if (!keep[r]) zero_blank(masked.data(), layer.out)(r, 1);
        }
        given = masked.data();
      }
      backward_tile(layer, x.const_data_ptr<float>() + begin * layer.in, given, rows,
                    /*first=*/true, grad_x.mutable_data_ptr<float>() + begin * layer.in,
                    sums[static_cast<size_t>(part)]);
    };
    for_each_tile(rows_of(x), mask_data(mask), tile,
                  zero_blank(grad_x.mutable_data_ptr<float>(), layer.in));
    return {
        grad_x, total_of(sums, &Sums::weight, kept[1]), total_of(sums, &Sums::bias, kept[2]), {}};
  }
};

}  // namespace

LinearRows linear_rows(const torch::Tensor& x, const RowNorm* norm,
                       const std::array<LinearWeights, 3>& layers, const torch::Tensor& mask) {
  const torch::Tensor none = torch::empty({0}, x.options());
  const variable_list outputs = ThreeLayers::apply(
      x.contiguous(), norm == nullptr ? none : norm->weight.contiguous(),
      norm == nullptr ? none : norm->bias.contiguous(), layers[0].weight.contiguous(),
      layers[0].bias, layers[1].weight.contiguous(), layers[1].bias, layers[2].weight.contiguous(),
      layers[2].bias, kept_mask(mask), norm == nullptr ? 0.0 : norm->eps);
  return {.y = {outputs[0], outputs[1], outputs[2]}, .x = outputs[3]};
}

torch::Tensor masked_linear_rows(const torch::Tensor& x, const LinearWeights& layer,
                                 const torch::Tensor& mask) {
  return MaskedLayer::apply(x, layer.weight.contiguous(), layer.bias, mask);
}

}  // namespace lra
