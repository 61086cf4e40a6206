// Attention among tokens that a hash puts near each other by LibTorch's operators: hashes and the
// softmax are at least float32, products keep the type of x. Differentiable once.
#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "attention_variants/ops/autocast.h"
#include "attention_variants/ops/autograd_state.h"
#include "attention_variants/ops/padding.h"
#include "attention_variants/ops/reference/lsh_slab.h"
#include "attention_variants/ops/reference/operators.h"

namespace lra::ops::reference {
namespace {

// (sample, head) pairs whose sorted rounds have `tokens` tokens together: few enough scores at a
// time to stay in a CPU's cache; enough at a time to fill a GPU.
int64_t pairs_at_a_time(int64_t tokens, const LshOptions& settings, bool cuda) {
  const int64_t wanted = int64_t{1} << (cuda ? 26 : 20);
  return std::max<int64_t>(1, wanted / (tokens * settings.chunk * lsh_slots(settings)));
}

// Attention within the chunks, the rounds combined: x, k, v [P,L,d] (P = B·H), bias [P,L,1] (of
// keys, at least float32), order [P,R,L] -> [P,L,d]. The rounds' softmax and their combination are
// together one softmax over all that a token sees in any round. So the backward pass needs, to have
// every weight back from its round's softmax, one factor a token and round: that round's share.
class ChunkAttention : public torch::autograd::Function<ChunkAttention> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& x,
                               const torch::Tensor& k, const torch::Tensor& v,
                               const torch::Tensor& bias, const torch::Tensor& order,
                               const LshOptions& settings) {
    torch::Tensor out = torch::empty_like(v);
    torch::Tensor shares =
        torch::empty({order.size(0), order.size(1) * order.size(2), 1}, bias.options());
    Scores scores;
    for_each_slab(order, settings, [&](int64_t first, int64_t count, const LshSlab& slab) {
      const auto part = [&](const torch::Tensor& t) { return t.narrow(0, first, count); };
      const torch::Tensor& s = scores.compute(slab, part(x), part(k), part(bias));
      const torch::Tensor& p = scores.softmax();
      const torch::Tensor mixed = torch::bmm(p.to(v.scalar_type()), slab.keys(part(v)));
      // The largest weight is e⁰ by the sum. The two make up the log-sum-exp, and are kept apart:
      // beside the score of a token with itself float32 would lose the sum.
      const torch::Tensor high = s.amax(-1, /*keepdim=*/true);               // [m·C,c,1]
      const torch::Tensor sum = p.amax(-1, /*keepdim=*/true).reciprocal_();  // [m·C,c,1]
      const torch::Tensor highs = slab.unsort(high);                         // [m,R,L,1]
      torch::Tensor share = (highs - highs.amax(1, /*keepdim=*/true)).exp_().mul_(slab.unsort(sum));
      share.div_(share.sum(1, /*keepdim=*/true));
      part(out).copy_(slab.unsort(mixed).mul(share).sum(1));
      part(shares).copy_(slab.sort(share));
    });
    context->save_for_backward({x, k, v, bias, order, out, shares});
    save_settings(*context, settings);
    return out;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    const auto saved = saved_tensors(*context);
    const torch::NoGradGuard no_grad;
    const NoAutocast guard;
    const torch::Tensor &x = saved[0], &k = saved[1], &v = saved[2], &bias = saved[3],
                        &order = saved[4], &out = saved[5], &shares = saved[6];
    const auto& settings = saved_settings<LshOptions>(*context);
    const auto type = bias.scalar_type(), given = x.scalar_type();
    const torch::Tensor grad = grads[0].contiguous();                                    // [P,L,d]
    const torch::Tensor dot = (grad.to(type) * out.to(type)).sum(-1, /*keepdim=*/true);  // [P,L,1]
    torch::Tensor grad_x = torch::empty_like(x), grad_k = torch::empty_like(k),
                  grad_v = torch::empty_like(v);
    Scores scores;
    for_each_slab(order, settings, [&](int64_t first, int64_t count, const LshSlab& slab) {
      const auto part = [&](const torch::Tensor& t) { return t.narrow(0, first, count); };
      scores.compute(slab, part(x), part(k), part(bias));
      const torch::Tensor& p = scores.softmax();  // [m·C,c,w]
      // A row of weights is its round's softmax times the round's share, which is cheaper to
      // multiply into the row of the gradient.
      const torch::Tensor share = part(shares).view({p.size(0), p.size(1), 1});
      const torch::Tensor mixed = slab.queries(part(grad)).mul(share).to(given);  // [m·C,c,d]
      part(grad_v).copy_(slab.fold(torch::bmm(p.to(given).transpose(1, 2), mixed)).sum(1));
      torch::Tensor grad_s = scores.product(mixed, slab.keys(part(v)));
      grad_s.sub_(slab.queries(part(dot)).mul_(share)).mul_(p);
      slab.fill_self(grad_s, 0);
      grad_s = grad_s.to(given);
      part(grad_x).copy_(slab.unsort(torch::bmm(grad_s, slab.keys(part(k)))).sum(1));
      part(grad_k).copy_(
          slab.fold(torch::bmm(grad_s.transpose(1, 2), slab.queries(part(x)))).sum(1));
    });
    return {grad_x, grad_k, grad_v, {}, {}, {}};
  }

 private:
  // Scores are the largest tensors by far: one allocation each serves all slabs.
  class Scores {
   public:
    /// x kᵀ of a slab, padded keys and tokens themselves masked [m·C,c,w], at least float32.
    const torch::Tensor& compute(const LshSlab& slab, const torch::Tensor& x,
                                 const torch::Tensor& k, const torch::Tensor& bias) {
      scores_ = product(slab.queries(x), slab.keys(k));
      scores_.add_(slab.keys(bias).transpose(1, 2));
      slab.fill_self(scores_, kSelfScore);
      return scores_;
    }

    /// The softmax of the last scores.
    const torch::Tensor& softmax() {
      weights_ = like(weights_, scores_.sizes(), scores_.options());
      at::_softmax_out(weights_, scores_, -1, /*half_to_float=*/false);
      return weights_;
    }

    /// a bᵀ, at least float32, in the place of the scores.
    torch::Tensor product(const torch::Tensor& a, const torch::Tensor& b) {
      raw_ = like(raw_, {a.size(0), a.size(1), b.size(1)}, a.options());
      torch::bmm_out(raw_, a, b.transpose(1, 2));
      return raw_.to(wide_type(a.scalar_type()));
    }

   private:
    // The first slab is the largest.
    static torch::Tensor like(const torch::Tensor& buffer, at::IntArrayRef sizes,
                              const torch::TensorOptions& options) {
      return buffer.defined() ? buffer.narrow(0, 0, sizes[0]) : torch::empty(sizes, options);
    }

    torch::Tensor raw_, scores_, weights_;
  };

  static void for_each_slab(const torch::Tensor& order, const LshOptions& settings,
                            const std::function<void(int64_t, int64_t, const LshSlab&)>& work) {
    const int64_t step = pairs_at_a_time(order.size(1) * order.size(2), settings, order.is_cuda());
    for (int64_t first = 0; first < order.size(0); first += step) {
      const int64_t count = std::min(step, order.size(0) - first);
      work(first, count, LshSlab(order.narrow(0, first, count), settings));
    }
  }
};

// Keys such that x·k are the logits [B,H,L,d].
torch::Tensor keys_of(const torch::Tensor& x, KeyScale scale) {
  const torch::Tensor w = x.to(wide_type(x.scalar_type()));
  const double root = std::sqrt(static_cast<double>(x.size(-1)));
  if (scale == KeyScale::rms) {
    const torch::Tensor mean_square = w.square().mean(-1, /*keepdim=*/true);
    return (w * ((mean_square + 1e-6).rsqrt() / root)).to(x.scalar_type());
  }
  const torch::Tensor norm = at::linalg_vector_norm(w, 2, -1, /*keepdim=*/true);
  return (w / (norm.clamp_min(1e-12) * root)).to(x.scalar_type());
}

// Positions of the tokens in each round, sorted by (bucket, position), padding last: x [B,H,L,d],
// real [B,L] -> [B,H,R,L].
torch::Tensor sorted_rounds(const torch::Tensor& x_given, const torch::Tensor& real,
                            const torch::Tensor& rotations, const LshOptions& settings) {
  const torch::NoGradGuard no_grad;
  const torch::Tensor x = x_given.to(wide_type(x_given.scalar_type()));
  const torch::Tensor padded = real.logical_not().unsqueeze(1);  // [B,1,L]
  std::vector<torch::Tensor> rounds;
  for (int64_t round = 0; round < settings.rounds; ++round) {
    torch::Tensor buckets = torch::zeros({x.size(0), x.size(1), x.size(2)},
                                         padded.options().dtype(torch::kInt64));  // [B,H,L]
    int64_t begin = 0, stride = 1;
    for (const int64_t factor : settings.bucket_factors) {
      const int64_t half = factor / 2;
      // argmax [xR; -xR], without writing the second half.
      const torch::Tensor rotated = torch::matmul(
          x, rotations.select(1, round).narrow(1, begin, half).transpose(1, 2));  // [B,H,L,half]
      const auto [high, high_at] = rotated.max(-1);
      const auto [low, low_at] = rotated.min(-1);
      buckets.add_(torch::where(high.ge(low.neg()), high_at, low_at + half), stride);
      begin += half;
      stride *= factor;
    }
    rounds.push_back(torch::argsort(buckets.masked_fill_(padded, stride), /*stable=*/true,
                                    /*dim=*/-1, /*descending=*/false));
  }
  return torch::stack(rounds, 2);
}

int64_t padded_length(int64_t length, const LshOptions& settings) {
  return (length + settings.chunk - 1) / settings.chunk * settings.chunk;
}

}  // namespace

torch::Tensor run(const LshCall& call) {
  const auto& [x_given, v, mask, rotations, settings] = call;
  const NoAutocast guard;
  torch::Tensor x = zero_padding(x_given, mask), values = zero_padding(v, mask), real = mask;
  const int64_t length = x.size(2), padding = padded_length(length, settings) - length;
  if (padding > 0) {
    x = torch::constant_pad_nd(x, {0, 0, 0, padding});
    values = torch::constant_pad_nd(values, {0, 0, 0, padding});
    real = torch::constant_pad_nd(real, {0, padding});
  }
  const torch::Tensor order = settings.bucket_factors.empty()
                                  ? torch::arange(length, mask.options().dtype(torch::kInt64))
                                        .expand({x.size(0), x.size(1), 1, length})
                                  : sorted_rounds(x, real, rotations, settings);  // [B,H,R,L]
  const torch::Tensor bias =
      torch::zeros(real.sizes(), x.options().dtype(wide_type(x.scalar_type())))
          .masked_fill_(real.logical_not(), kPaddedScore)
          .unsqueeze(1)
          .expand({-1, x.size(1), -1})
          .unsqueeze(-1);  // [B,H,L,1]
  const auto joined = [](const torch::Tensor& t) { return t.flatten(0, 1).contiguous(); };
  const torch::Tensor out =
      ChunkAttention::apply(joined(x), joined(keys_of(x, settings.key_scale)), joined(values),
                            joined(bias), joined(order), settings);
  return zero_padded_rows(out.unflatten(0, {x.size(0), x.size(1)}).narrow(2, 0, length), mask);
}

int64_t bytes(const LshShape& shape) {
  const auto& [batch, heads, length, head_dim, element_size, settings] = shape;
  if (element_size < static_cast<int64_t>(sizeof(float))) return -1;  // is widened
  const int64_t pairs = batch * heads, d = head_dim, tokens = padded_length(length, settings),
                slots = lsh_slots(settings), sorted = settings.rounds * tokens,
                slab = std::min(pairs, pairs_at_a_time(sorted, settings, /*cuda=*/false)) * sorted,
                index = static_cast<int64_t>(sizeof(int64_t));
  // x, its keys, the values and the result; the rounds' order, their shares, and the bias.
  const int64_t held =
      pairs * (4 * tokens * d + tokens + sorted) * element_size + pairs * sorted * index;
  // Of a slab: scores and weights; its positions; and either the values' chunks and what comes of
  // them, or that in two orders, weighed and summed.
  const int64_t scores = slab * 2 * slots * settings.chunk * element_size,
                positions = slab * (2 * slots + 3) * index, chunks = (slots + 1) * slab,
                weighed = 3 * slab + slab * tokens / sorted;
  return held + scores + positions + (std::max(chunks, weighed) * d + 4 * slab) * element_size;
}

}  // namespace lra::ops::reference
