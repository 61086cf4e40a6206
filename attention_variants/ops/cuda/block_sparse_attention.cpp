#include "attention_variants/ops/cuda/kernels/heads/block_sparse_attention.h"

#include <cmath>

#include "attention_variants/ops/autograd_state.h"
#include "attention_variants/ops/cuda/device_table.h"
#include "attention_variants/ops/cuda/heads.h"
#include "attention_variants/ops/cuda/operators.h"
#include "attention_variants/ops/cuda/pattern_plan.h"
#include "attention_variants/ops/cuda/rows.h"
#include "attention_variants/ops/heads.h"

namespace lra::ops::cuda {
namespace {

// top and inverse [B,H,N] float32.
BlockSparseParams block_sparse_params(const DevicePlan& plan, const torch::Tensor& q,
                                      const torch::Tensor& k, const torch::Tensor& v,
                                      const torch::Tensor& mask, const torch::Tensor& out,
                                      const torch::Tensor& top, const torch::Tensor& inverse) {
  BlockSparseParams p = {};
  p.storage = storage_of(q);
  p.batch = static_cast<int>(q.size(0));
  p.heads = static_cast<int>(q.size(1));
  p.length = static_cast<int>(q.size(2));
  p.depth = static_cast<int>(q.size(3));
  p.scale = 1 / std::sqrt(static_cast<float>(q.size(3)));
  p.plan = plan.plan;
  p.q = heads_of(q);
  p.k = heads_of(k);
  p.v = heads_of(v);
  p.mask = mask_of(mask);
  p.out = mutable_heads_of(out);
  p.top = top.mutable_data_ptr<float>();
  p.inverse = inverse.mutable_data_ptr<float>();
  return p;
}

class BlockSparseFunction : public torch::autograd::Function<BlockSparseFunction> {
  using Context = torch::autograd::AutogradContext;

 public:
  static torch::Tensor forward(Context* context, const torch::Tensor& q_given,
                               const torch::Tensor& k_given, const torch::Tensor& v_given,
                               const torch::Tensor& mask_given, const DevicePlan& plan) {
    const torch::Tensor q = with_readable_rows(q_given), k = with_readable_rows(k_given),
                        v = with_readable_rows(v_given), mask = dense(mask_given),
                        out = empty_heads_like(q), top = empty_floats(q, q.sizes().slice(0, 3)),
                        inverse = torch::empty_like(top);
    start(&KernelTable::block_sparse_forward, q,
          block_sparse_params(plan, q, k, v, mask, out, top, inverse));
    context->save_for_backward({q, k, v, mask, out, top, inverse});
    save_settings(*context, plan);
    return out;
  }

  static torch::autograd::variable_list backward(Context* context,
                                                 torch::autograd::variable_list given) {
    const torch::autograd::variable_list kept = saved_tensors(*context);
    const torch::Tensor &q = kept[0], &k = kept[1], &v = kept[2];
    const torch::Tensor grad_out = with_readable_rows(given[0]), along = torch::empty_like(kept[5]),
                        grad_q = empty_heads_like(q), grad_k = empty_heads_like(k),
                        grad_v = empty_heads_like(v);
    BlockSparseParams p = block_sparse_params(saved_settings<DevicePlan>(*context), q, k, v,
                                              kept[3], kept[4], kept[5], kept[6]);
    p.along = along.mutable_data_ptr<float>();
    p.grad_out = heads_of(grad_out);
    p.grad_q = mutable_heads_of(grad_q);
    p.grad_k = mutable_heads_of(grad_k);
    p.grad_v = mutable_heads_of(grad_v);
    start(&KernelTable::block_sparse_backward, q, p);
    return {grad_q, grad_k, grad_v, {}, {}};
  }
};

}  // namespace

bool takes(const Place& place, const BlockSparseShape& shape) {
  return tiles_take(place, shape.batch, shape.heads, shape.length, shape.head_dim);
}

torch::Tensor run(const BlockSparseCall& call) {
  const DevicePlan plan = device_plan(call.patterns(), call.q.size(2), call.q.device());
  return BlockSparseFunction::apply(call.q, call.k, call.v, call.mask, plan);
}

}  // namespace lra::ops::cuda
