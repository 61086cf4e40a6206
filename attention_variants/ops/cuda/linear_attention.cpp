#include "attention_variants/ops/cuda/kernels/heads/linear_attention.h"

#include <cmath>
#include <utility>

#include "attention_variants/ops/autograd_state.h"
#include "attention_variants/ops/cuda/device_table.h"
#include "attention_variants/ops/cuda/heads.h"
#include "attention_variants/ops/cuda/operators.h"
#include "attention_variants/ops/cuda/rows.h"
#include "attention_variants/ops/heads.h"

namespace lra::ops::cuda {
namespace {

FeatureOptions feature_options(const LinearAttentionOptions& options, int64_t length) {
  FeatureOptions of = {};
  of.map = options.map;
  of.norm = static_cast<float>(options.norm);
  of.offset = static_cast<float>(options.offset);
  of.share = options.normalise ? 1.0F : 1 / std::sqrt(static_cast<float>(length));
  of.denominator_min = static_cast<float>(options.denominator_min);
  of.epsilon = static_cast<float>(options.epsilon);
  of.guard = static_cast<float>(options.guard);
  of.normalise = options.normalise;
  of.count_padding = options.count_padding;
  of.batch_max = options.key_max == KeyMax::batch;
  of.max_attached = options.max_gradient == MaxGradient::attached;
  return of;
}

// A call's inputs, the table in float32.
struct LinearInputs {
  torch::Tensor q, k, v, mask, table, out;
};

// What the forward pass keeps: see LinearAttentionParams.
struct LinearState {
  torch::Tensor sums, key_peaks, denominators, query_peaks, query_features;
};

LinearState empty_state(const torch::Tensor& q, int64_t width) {
  const int64_t batch = q.size(0), heads = q.size(1), length = q.size(2), d = q.size(3),
                peak = sizeof(KeyPeak) / sizeof(int32_t);
  const auto integers = q.options().dtype(torch::kInt32);
  return {empty_floats(q, {batch, heads, width, d + 1}),
          torch::empty({batch, heads, peak}, integers), empty_floats(q, {batch, heads, length}),
          empty_floats(q, {batch, heads, length}), torch::empty({batch, heads, length}, integers)};
}

LinearAttentionParams linear_params(const LinearAttentionOptions& options, const LinearInputs& in,
                                    const LinearState& state) {
  LinearAttentionParams p = {};
  p.storage = storage_of(in.q);
  p.batch = static_cast<int>(in.q.size(0));
  p.heads = static_cast<int>(in.q.size(1));
  p.length = static_cast<int>(in.q.size(2));
  p.depth = static_cast<int>(in.q.size(3));
  p.width = static_cast<int>(state.sums.size(2));
  p.splits = linear_attention_splits(p.batch * p.heads, p.length, p.width);
  p.options = feature_options(options, in.q.size(2));
  p.q = heads_of(in.q);
  p.k = heads_of(in.k);
  p.v = heads_of(in.v);
  p.mask = mask_of(in.mask);
  p.table = in.table.const_data_ptr<float>();
  p.out = mutable_heads_of(in.out);
  p.sums = state.sums.mutable_data_ptr<float>();
  p.key_peaks = reinterpret_cast<KeyPeak*>(state.key_peaks.mutable_data_ptr<int32_t>());
  p.denominators = state.denominators.mutable_data_ptr<float>();
  p.query_peaks = state.query_peaks.mutable_data_ptr<float>();
  p.query_features = state.query_features.mutable_data_ptr<int32_t>();
  return p;
}

class LinearAttentionFunction : public torch::autograd::Function<LinearAttentionFunction> {
  using Context = torch::autograd::AutogradContext;

 public:
  static torch::Tensor forward(Context* context, const torch::Tensor& q, const torch::Tensor& k,
                               const torch::Tensor& v, const torch::Tensor& mask,
                               const torch::Tensor& table, int64_t width,
                               const LinearAttentionOptions& options) {
    LinearInputs in = {with_readable_rows(q), with_readable_rows(k),          with_readable_rows(v),
                       dense(mask),           dense(table.to(torch::kFloat)), {}};
    in.out = empty_heads_like(in.q);
    const LinearState state = empty_state(in.q, width);
    LinearAttentionParams p = linear_params(options, in, state);
    const torch::Tensor scratch = empty_floats(q, {linear_attention_scratch(p)});
    p.scratch = scratch.mutable_data_ptr<float>();
    start(&KernelTable::linear_attention_forward, in.q, p);
    context->save_for_backward({in.q, in.k, in.v, in.mask, in.table, in.out, state.sums,
                                state.key_peaks, state.denominators, state.query_peaks,
                                state.query_features});
    save_settings(*context, options);
    return in.out;
  }

  static torch::autograd::variable_list backward(Context* context,
                                                 torch::autograd::variable_list given) {
    const torch::autograd::variable_list kept = saved_tensors(*context);
    const LinearInputs in = {kept[0], kept[1], kept[2], kept[3], kept[4], kept[5]};
    LinearAttentionParams p = linear_params(saved_settings<LinearAttentionOptions>(*context), in,
                                            {kept[6], kept[7], kept[8], kept[9], kept[10]});
    const torch::Tensor grad_out = with_readable_rows(given[0]), grad_q = empty_heads_like(in.q),
                        grad_k = empty_heads_like(in.k), grad_v = empty_heads_like(in.v),
                        scratch = empty_floats(in.q, {linear_attention_scratch(p)});
    p.scratch = scratch.mutable_data_ptr<float>();
    p.grad_out = heads_of(grad_out);
    p.grad_q = mutable_heads_of(grad_q);
    p.grad_k = mutable_heads_of(grad_k);
    p.grad_v = mutable_heads_of(grad_v);
    start(&KernelTable::linear_attention_backward, in.q, p);
    return {grad_q, grad_k, grad_v, {}, {}, {}, {}};
  }
};

}  // namespace

bool takes(const Place& place, const LinearAttentionShape& shape) {
  return tiles_take(place, shape.batch, shape.heads, shape.length, shape.head_dim) &&
         shape.width >= 1 && shape.width <= INT32_MAX / (shape.head_dim + 1) &&
         shape.width <= int64_t{UINT16_MAX} * kFeatureRows;
}

torch::Tensor run(const LinearAttentionCall& call) {
  const torch::Tensor table =
      call.table.defined() ? call.table : torch::empty({0}, call.q.options());
  return LinearAttentionFunction::apply(call.q, call.k, call.v, call.mask, table,
                                        call.shape().width, call.options);
}

}  // namespace lra::ops::cuda
