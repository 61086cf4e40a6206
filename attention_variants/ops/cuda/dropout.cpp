#include "attention_variants/ops/cuda/dropout.h"
#include "attention_variants/ops/heads.h"

#include "attention_variants/ops/autograd_state.h"
#include "attention_variants/ops/cuda/device_table.h"
#include "attention_variants/ops/cuda/operators.h"
#include "attention_variants/ops/cuda/rows.h"

namespace lra::ops::cuda {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class RowsDropout : public torch::autograd::Function<RowsDropout> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x_given,
                               DropoutStream dropout) {
    save_settings(*context, dropout);
    const torch::Tensor x = dense(x_given);
    torch::Tensor y = torch::empty_like(x);
    start(&KernelTable::dropout_rows_forward, x,
          DropoutRowsParams{.rows = rows_of(x),
                            .width = width_of(x),
                            .branch = storage_of(x),
                            .result = storage_of(x),
                            .x = data_of(x),
                            .dropout = dropout,
                            .y = data_of(y)});
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    check_first_order();
    const torch::Tensor grad = dense(gradients[0]);
    torch::Tensor grad_x = torch::empty_like(grad);
    start(&KernelTable::dropout_rows_backward, grad,
          DropoutRowsParams{.rows = rows_of(grad),
                            .width = width_of(grad),
                            .branch = storage_of(grad),
                            .result = storage_of(grad),
                            .dropout = saved_settings<DropoutStream>(*context),
                            .grad = data_of(grad),
                            .grad_x = data_of(grad_x)});
    return {grad_x, {}};
  }

 private:
  static int width_of(const torch::Tensor& x) {
    return x.dim() == 0 ? 1 : static_cast<int>(x.size(-1));
  }
  static int64_t rows_of(const torch::Tensor& x) {
    return x.numel() == 0 ? 0 : x.numel() / width_of(x);
  }
};

}  // namespace

bool takes(const Place& place, const DropoutShape& shape) {
  return has_kernels(place) && dropout_threshold(shape.p) < 65536;
}

torch::Tensor run(const DropoutCall& call) {
  return RowsDropout::apply(call.x,
                            stream_of(draw_dropout(call.p, /*training=*/true, call.x.numel())));
}

}  // namespace lra::ops::cuda
