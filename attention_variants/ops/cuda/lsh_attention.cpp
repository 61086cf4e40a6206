#include "attention_variants/ops/cuda/kernels/heads/lsh_attention.h"

#include <functional>
#include <numeric>

#include "attention_variants/ops/autograd_state.h"
#include "attention_variants/ops/cuda/device_table.h"
#include "attention_variants/ops/cuda/heads.h"
#include "attention_variants/ops/cuda/operators.h"
#include "attention_variants/ops/cuda/rows.h"
#include "attention_variants/ops/heads.h"

namespace lra::ops::cuda {
namespace {

int64_t bucket_count(const LshOptions& options) {
  return std::accumulate(options.bucket_factors.begin(), options.bucket_factors.end(), int64_t{1},
                         std::multiplies<>());
}

LshBuckets buckets_of(const LshOptions& options, const torch::Tensor& rotations) {
  LshBuckets buckets = {};
  for (const int64_t factor : options.bucket_factors) {
    buckets.factors[buckets.factor_count++] = static_cast<int>(factor);
    buckets.width += static_cast<int>(factor / 2);
  }
  buckets.count = static_cast<int>(bucket_count(options));
  buckets.rotations = rotations.const_data_ptr<float>();
  return buckets;
}

// What the forward pass keeps: the rounds' order, the keys' factors and the softmaxes' statistics.
struct LshState {
  torch::Tensor order, factors, top, inverse;
};

LshParams lsh_params(const LshOptions& options, const torch::Tensor& x, const torch::Tensor& v,
                     const torch::Tensor& mask, const torch::Tensor& out, const LshState& state) {
  LshParams p = {};
  p.storage = storage_of(x);
  p.batch = static_cast<int>(x.size(0));
  p.heads = static_cast<int>(x.size(1));
  p.length = static_cast<int>(x.size(2));
  p.depth = static_cast<int>(x.size(3));
  p.rounds = static_cast<int>(options.rounds);
  p.chunk = static_cast<int>(options.chunk);
  p.chunks = (p.length + p.chunk - 1) / p.chunk;
  p.before = static_cast<int>(options.before);
  p.after = static_cast<int>(options.after);
  p.key_scale = options.key_scale;
  p.x = heads_of(x);
  p.v = heads_of(v);
  p.mask = mask_of(mask);
  p.order = state.order.mutable_data_ptr<int32_t>();
  p.factors = state.factors.mutable_data_ptr<float>();
  p.out = mutable_heads_of(out);
  p.top = state.top.mutable_data_ptr<float>();
  p.inverse = state.inverse.mutable_data_ptr<float>();
  return p;
}

class LshFunction : public torch::autograd::Function<LshFunction> {
  using Context = torch::autograd::AutogradContext;

 public:
  static torch::Tensor forward(Context* context, const torch::Tensor& x_given,
                               const torch::Tensor& v_given, const torch::Tensor& mask_given,
                               const torch::Tensor& rotations_given, const LshOptions& options) {
    const torch::Tensor x = with_readable_rows(x_given), v = with_readable_rows(v_given),
                        mask = dense(mask_given), out = empty_heads_like(x),
                        rotations = dense(rotations_given.to(torch::kFloat));
    const int64_t places = (x.size(2) + options.chunk - 1) / options.chunk * options.chunk;
    const auto rows = x.sizes().slice(0, 3);
    const LshState state = {torch::empty({x.size(0), x.size(1), options.rounds * places},
                                         x.options().dtype(torch::kInt32)),
                            empty_floats(x, rows), empty_floats(x, rows), empty_floats(x, rows)};
    LshParams p = lsh_params(options, x, v, mask, out, state);
    const torch::Tensor scratch = empty_floats(x, {lsh_forward_scratch(p)});
    p.buckets = buckets_of(options, rotations);
    p.scratch = scratch.mutable_data_ptr<float>();
    start(&KernelTable::lsh_forward, x, p);
    context->save_for_backward(
        {x, v, mask, out, state.order, state.factors, state.top, state.inverse});
    save_settings(*context, options);
    return out;
  }

  static torch::autograd::variable_list backward(Context* context,
                                                 torch::autograd::variable_list given) {
    const torch::autograd::variable_list kept = saved_tensors(*context);
    const torch::Tensor &x = kept[0], &v = kept[1];
    LshParams p = lsh_params(saved_settings<LshOptions>(*context), x, v, kept[2], kept[3],
                             {kept[4], kept[5], kept[6], kept[7]});
    const torch::Tensor grad_out = with_readable_rows(given[0]), grad_x = empty_heads_like(x),
                        grad_v = empty_heads_like(v),
                        scratch = empty_floats(x, {lsh_backward_scratch(p)});
    p.scratch = scratch.mutable_data_ptr<float>();
    p.grad_out = heads_of(grad_out);
    p.grad_x = mutable_heads_of(grad_x);
    p.grad_v = mutable_heads_of(grad_v);
    start(&KernelTable::lsh_backward, x, p);
    return {grad_x, grad_v, {}, {}, {}};
  }
};

}  // namespace

bool takes(const Place& place, const LshShape& shape) {
  const LshOptions& options = shape.options;
  const auto pairs = [&] { return options.chunk * (options.before + 1 + options.after); };
  return tiles_take(place, shape.batch, shape.heads, shape.length, shape.head_dim) &&
         std::ssize(options.bucket_factors) <= kMostBucketFactors &&
         bucket_count(options) <= kMostBuckets && pairs() <= INT32_MAX &&
         options.rounds * (shape.length + options.chunk) <= INT32_MAX;
}

torch::Tensor run(const LshCall& call) {
  return LshFunction::apply(call.x, call.v, call.mask, call.rotations, call.options);
}

}  // namespace lra::ops::cuda
