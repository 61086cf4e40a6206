#include <algorithm>

#include "attention_variants/ops/autograd_state.h"
#include "attention_variants/ops/cpu/layer_tile.h"
#include "attention_variants/ops/cpu/operators.h"
#include "attention_variants/ops/cpu/parallel.h"
#include "attention_variants/ops/heads.h"

namespace lra::ops::cpu {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Each row's mean and inverse standard deviation, for the backward pass.
struct Moments {
  float *mean, *inverse_sd;  // [rows]

  explicit Moments(const torch::Tensor& of)  // [2,rows]
      : mean(of.mutable_data_ptr<float>()), inverse_sd(mean + of.size(1)) {}
};

// Of the rows of x at `begin`; `grad` is that of their results.
void backward_tile(const NormTile& norm, const float* x, const Moments& moments, const float* grad,
                   int64_t begin, int64_t rows, float* grad_x, const NormGrad& sums) {
  const int64_t at = begin * norm.width;
  sums.backward(norm, x + at, moments.mean + begin, moments.inverse_sd + begin, grad, rows,
                /*past=*/nullptr, grad_x + at);
}

class LayerNorm : public torch::autograd::Function<LayerNorm> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x_given,
                               const torch::Tensor& weight, const torch::Tensor& bias,
                               const torch::Tensor& mask, double eps) {
    const torch::Tensor x = dense(x_given), y = torch::empty_like(x);
    const NormTile norm(weight, bias, eps);
    const int64_t rows = x.numel() / norm.width;
    const torch::Tensor kept = torch::empty({2, rows}, x.options());
    const Moments moments(kept);
    const float* from = x.const_data_ptr<float>();
    float* to = y.mutable_data_ptr<float>();
    const auto tile = [&](int64_t, int64_t begin, int64_t n) {
      normalise_rows(from + begin * norm.width, n, norm.width, norm.weight, norm.bias, norm.eps,
                     to + begin * norm.width, moments.mean + begin, moments.inverse_sd + begin);
    };
    parallel_for_row_tiles(rows, mask_data(mask), tile, zero_skipped_rows(to, norm.width));
    context->save_for_backward({x, weight, bias, mask, kept});
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list kept = saved_tensors(*context);
    const torch::Tensor &x = kept[0], grad = dense(gradients[0]), grad_x = torch::empty_like(x);
    const NormTile norm(kept[1], kept[2], 0);
    const Moments moments(kept[4]);
    const int64_t rows = x.numel() / norm.width;
    RowTileWorkers<NormGrad> sums(row_tile_workers(rows), norm);
    float* to = grad_x.mutable_data_ptr<float>();
    const auto tile = [&](int64_t worker, int64_t begin, int64_t n) {
      backward_tile(norm, x.const_data_ptr<float>(), moments,
                    grad.const_data_ptr<float>() + begin * norm.width, begin, n, to, sums[worker]);
    };
    parallel_for_row_tiles(rows, mask_data(kept[3]), tile, zero_skipped_rows(to, norm.width));
    return {
        grad_x, sums.sum(&NormGrad::weight, kept[1]), sums.sum(&NormGrad::bias, kept[2]), {}, {}};
  }
};

// What a worker needs to normalise and weigh a tile.
struct SummedRows {
  float *rows, *weights;  // [kRowTile,width], [kRowTile]

  SummedRows(const NormTile& norm, Arena& arena)
      : rows(arena.take(kRowTile * norm.width)), weights(arena.take(kRowTile)) {}
};

class LayerNormSum : public torch::autograd::Function<LayerNormSum> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x_given,
                               const torch::Tensor& weight, const torch::Tensor& bias,
                               const torch::Tensor& mask_given, double eps) {
    const torch::Tensor x = dense(x_given), mask = dense(mask_given);
    const NormTile norm(weight, bias, eps);
    const int64_t batch = x.size(0), length = x.size(1);
    const torch::Tensor sum = torch::zeros({batch, norm.width}, x.options()),
                        kept = torch::empty({2, batch * length}, x.options());
    const Moments moments(kept);
    const float* from = x.const_data_ptr<float>();
    float* to = sum.mutable_data_ptr<float>();
    RowTileWorkers<SummedRows> workers(threads_for(batch), norm);
    parallel_for_dynamic(batch, [&](int64_t b, int64_t worker) {
      const SummedRows& own = workers[worker];
      for_used_tiles(mask, b, [&](int64_t begin, int64_t rows, int64_t, const bool* tokens) {
        normalise_rows(from + begin * norm.width, rows, norm.width, norm.weight, norm.bias,
                       norm.eps, own.rows, moments.mean + begin, moments.inverse_sd + begin);
        std::copy(tokens, tokens + rows, own.weights);
        add_column_sums({own.rows, norm.width}, rows, norm.width, to + b * norm.width, own.weights);
      });
    });
    context->save_for_backward({x, weight, bias, mask, kept});
    return sum;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list kept = saved_tensors(*context);
    const torch::Tensor &x = kept[0], &mask = kept[3], grad = dense(gradients[0]),
                        grad_x = torch::empty_like(x);
    const NormTile norm(kept[1], kept[2], 0);
    const Moments moments(kept[4]);
    // A part a sample: the same sums for any number of threads.
    RowTileWorkers<NormGrad> sums(x.size(0), norm);
    RowTileWorkers<SummedRows> workers(threads_for(x.size(0)), norm);
    float* const to = grad_x.mutable_data_ptr<float>();
    parallel_for_dynamic(x.size(0), [&](int64_t b, int64_t worker) {
      float* rows_grad = workers[worker].rows;
      const float* given = grad.const_data_ptr<float>() + b * norm.width;
      for_used_tiles(mask, b, [&](int64_t begin, int64_t rows, int64_t all, const bool* tokens) {
        zero_skipped_rows(to, norm.width)(begin + rows, all - rows);
        for (int64_t r = 0; r < rows; ++r) {
          float* row = rows_grad + r * norm.width;
          if (tokens[r]) {
            std::copy(given, given + norm.width, row);
          } else {
            std::fill(row, row + norm.width, 0.0F);
          }
        }
        backward_tile(norm, x.const_data_ptr<float>(), moments, rows_grad, begin, rows, to,
                      sums[b]);
      });
    });
    return {
        grad_x, sums.sum(&NormGrad::weight, kept[1]), sums.sum(&NormGrad::bias, kept[2]), {}, {}};
  }

 private:
  // Calls body(first row of all, rows up to the last token, all rows, their mask) for the tiles of
  // sample b.
  template <class Body>
  static void for_used_tiles(const torch::Tensor& mask, int64_t b, const Body& body) {
    const int64_t length = mask.size(1);
    const bool* of = mask.const_data_ptr<bool>() + b * length;
    for (int64_t begin = 0; begin < length; begin += kRowTile) {
      const int64_t all = std::min(kRowTile, length - begin);
      body(b * length + begin, used_length(of + begin, all), all, of + begin);
    }
  }
};

}  // namespace

bool takes(const Place& place, const NormShape&) { return is_cpu_float(place); }

torch::Tensor run(const LayerNormCall& call) {
  return LayerNorm::apply(call.x, dense(call.norm.weight), dense(call.norm.bias),
                          kept_mask(call.mask), call.norm.eps);
}

torch::Tensor run(const LayerNormMeanCall& call) {
  const torch::Tensor sum = LayerNormSum::apply(call.x, dense(call.norm.weight),
                                                dense(call.norm.bias), call.mask, call.norm.eps);
  return mean_of_rows(sum, call.mask, call.over);
}

}  // namespace lra::ops::cpu
