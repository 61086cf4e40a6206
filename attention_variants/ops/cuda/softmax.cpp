#include "attention_variants/ops/cuda/softmax.h"

#include <cmath>

#include "attention_variants/ops/cuda/device_table.h"
#include "attention_variants/ops/cuda/heads.h"
#include "attention_variants/ops/heads.h"

namespace lra::ops::cuda {
namespace {

SoftmaxParams softmax_params(const SoftmaxTensors& t) {
  SoftmaxParams p = {};
  p.storage = storage_of(t.q);
  p.batch = static_cast<int>(t.q.size(0));
  p.heads = static_cast<int>(t.q.size(1));
  p.queries = static_cast<int>(t.q.size(2));
  p.keys = static_cast<int>(t.k.size(2));
  p.depth = static_cast<int>(t.q.size(3));
  p.scale = 1 / std::sqrt(static_cast<float>(t.q.size(3)));
  p.q = heads_of(t.q);
  p.k = heads_of(t.k);
  p.v = heads_of(t.v);
  p.query_mask = data_of<bool>(t.query_mask);
  p.key_mask = data_of<bool>(t.key_mask);
  p.out = mutable_heads_of(t.out);
  p.top = t.stats.mutable_data_ptr<float>();
  p.inverse = p.top + t.stats[0].numel();
  return p;
}

}  // namespace

void softmax_forward(SoftmaxTensors& t, const torch::Tensor& sum) {
  t.out = empty_heads_like(t.q);
  t.stats = empty_floats(t.q, {2, t.q.size(0), t.q.size(1), t.q.size(2)});
  SoftmaxParams p = softmax_params(t);
  const torch::Tensor scratch = empty_floats(t.q, {softmax_scratch(p, false)});
  p.scratch = scratch.mutable_data_ptr<float>();
  if (sum.defined()) p.sum = mutable_heads_of(sum);
  start(&KernelTable::softmax_forward, t.q, p);
}

SoftmaxGradients empty_gradients(const torch::Tensor& q, const torch::Tensor& k,
                                 const torch::Tensor& v) {
  const bool of_one = !q.is_contiguous() && q.is_alias_of(k) && q.is_alias_of(v) &&
                      q.sizes() == k.sizes() && q.sizes() == v.sizes();
  if (!of_one) return {empty_heads_like(q), empty_heads_like(k), empty_heads_like(v)};
  const torch::Tensor all =
      torch::empty({q.size(0), q.size(2), 3, q.size(1), q.size(3)}, q.options());
  const auto part = [&](int64_t i) { return all.select(2, i).transpose(1, 2); };
  return {part(0), part(1), part(2)};
}

SoftmaxGradients softmax_backward(const SoftmaxTensors& t, const torch::Tensor& grad_out,
                                  const SoftmaxGradients& into) {
  SoftmaxParams p = softmax_params(t);
  const torch::Tensor scratch = empty_floats(t.q, {softmax_scratch(p, true)}),
                      along = empty_floats(t.q, t.stats.sizes().slice(1));
  SoftmaxGradients grad = into;
  if (!grad.q.defined()) grad.q = empty_heads_like(t.q);
  if (!grad.k.defined()) grad.k = empty_heads_like(t.k);
  if (!grad.v.defined()) grad.v = empty_heads_like(t.v);
  p.scratch = scratch.mutable_data_ptr<float>();
  p.along = along.mutable_data_ptr<float>();
  p.grad_out = heads_of(grad_out);
  p.grad_q = mutable_heads_of(grad.q);
  p.grad_k = mutable_heads_of(grad.k);
  p.grad_v = mutable_heads_of(grad.v);
  start(&KernelTable::softmax_backward, t.q, p);
  return grad;
}

}  // namespace lra::ops::cuda
