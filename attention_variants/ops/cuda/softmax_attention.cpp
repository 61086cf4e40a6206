#include <algorithm>
#include <optional>

#include "attention_variants/ops/autograd_state.h"
#include "attention_variants/ops/cuda/device_table.h"
#include "attention_variants/ops/cuda/heads.h"
#include "attention_variants/ops/cuda/operators.h"
#include "attention_variants/ops/cuda/softmax.h"
#include "attention_variants/ops/heads.h"

namespace lra::ops::cuda {
namespace {

constexpr int64_t kFewKeys = 256, kFewQueries = 128;

torch::Tensor contiguous_mask(const torch::Tensor& mask) {
  return mask.defined() ? dense(mask) : mask;
}

class SoftmaxFunction : public torch::autograd::Function<SoftmaxFunction> {
  using Context = torch::autograd::AutogradContext;
  using List = torch::autograd::variable_list;

 public:
  static torch::Tensor forward(Context* context, const torch::Tensor& q, const torch::Tensor& k,
                               const torch::Tensor& v,
                               const std::optional<torch::Tensor>& query_mask,
                               const std::optional<torch::Tensor>& key_mask) {
    SoftmaxTensors t = {with_readable_rows(q),
                        with_readable_rows(k),
                        with_readable_rows(v),
                        contiguous_mask(query_mask.value_or(torch::Tensor())),
                        contiguous_mask(key_mask.value_or(torch::Tensor())),
                        {},
                        {}};
    softmax_forward(t);
    context->save_for_backward({t.q, t.k, t.v, t.query_mask, t.key_mask, t.out, t.stats});
    return t.out;
  }

  static List backward(Context* context, List given) {
    const List kept = saved_tensors(*context);
    const SoftmaxTensors t = {kept[0], kept[1], kept[2], kept[3], kept[4], kept[5], kept[6]};
    const SoftmaxGradients grad = softmax_backward(t, with_readable_rows(given[0]));
    return {grad.q, grad.k, grad.v, {}, {}};
  }
};

std::optional<torch::Tensor> optional(const torch::Tensor& x) {
  return x.defined() ? std::optional(x) : std::nullopt;
}

}  // namespace

bool takes(const Place& place, const SoftmaxAttentionShape& shape) {
  const bool few = shape.keys <= kFewKeys || shape.queries <= kFewQueries,
             drops = shape.options.training && shape.options.dropout > 0;
  return few && !drops && shape.reach == 0 && shape.depth == shape.values &&
         tiles_take(place, shape.rows, 1, std::max(shape.queries, shape.keys), shape.depth) &&
         std::min(shape.queries, shape.keys) >= 1;
}

torch::Tensor run(const SoftmaxAttentionCall& call) {
  // Autocast may have made one of them narrower.
  const torch::ScalarType type = call.q.scalar_type();
  return SoftmaxFunction::apply(call.q, call.k.to(type), call.v.to(type), optional(call.queries),
                                optional(call.keys));
}

}  // namespace lra::ops::cuda
