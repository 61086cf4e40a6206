// Attention whose kernel is a product of features, computed from the right: φ(Q) (φ(K)ᵀ V).
#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "attention_variants/base/error.h"
#include "attention_variants/ops/autocast.h"
#include "attention_variants/ops/padding.h"
#include "attention_variants/ops/reference/causal.h"
#include "attention_variants/ops/reference/operators.h"

namespace lra::ops::reference {
namespace {

constexpr int64_t kCausalChunk = 64;  // its own products then cost as those with d x d sums do

// [v, 1] with the rows of padded positions (mask [B,N] false) zero, whatever stood there: v
// [B,H,N,d] -> [B,H,N,d+1], the values of key_value_sums().
torch::Tensor values_with_ones(const torch::Tensor& v, const torch::Tensor& mask) {
  // Padding makes a fresh tensor, so the fill is in place, and reaches the column of ones too.
  return at::constant_pad_nd(v, {0, 1}, 1)
      .masked_fill_(mask.logical_not().unsqueeze(1).unsqueeze(-1), 0);
}

// Σ_j (φ(k_j) + offset) [v_j, n_j]: k_features [B,H,N,f] are φ, values [B,H,N,d+1] are [v, n],
// where n is what a key counts for (1, or 0 for a padded one) -> [B,H,f,d+1]. A key that counts
// for nothing must have v = 0; its features need be finite only. The offset is added to the sums,
// so that no second [B,H,N,f] is made for it. O(N f d) time.
torch::Tensor key_value_sums(const torch::Tensor& k_features, const torch::Tensor& values,
                             double offset) {
  const torch::Tensor sums = torch::matmul(k_features.transpose(-2, -1), values);
  return offset == 0 ? sums : sums + offset * values.sum(2, /*keepdim=*/true);
}

// The first d columns of [B,H,N,d+1] divided by the last, which the options bound.
torch::Tensor quotient(const torch::Tensor& both, const LinearAttentionOptions& options) {
  const int64_t d = both.size(-1) - 1;
  torch::Tensor denominator = both.narrow(-1, d, 1);
  if (options.epsilon != 0) denominator = denominator + options.epsilon;
  if (options.guard != 0)
    denominator = torch::where(denominator.abs().le(options.guard), denominator + 2 * options.guard,
                               denominator);
  return both.narrow(-1, 0, d) / denominator.clamp_min(options.denominator_min);
}

// (φ(q_i) + offset)·sums, its first d columns divided by the last: q_features [B,H,N,f], sums of
// key_value_sums() [B,H,f,d+1] -> [B,H,N,d]. O(N f d) time.
torch::Tensor normalised_readout(const torch::Tensor& q_features, const torch::Tensor& sums,
                                 const LinearAttentionOptions& options) {
  torch::Tensor both = torch::matmul(q_features, sums);  // numerator and denominator [B,H,N,d+1]
  if (options.offset != 0) both = both + options.offset * sums.sum(2, /*keepdim=*/true);
  return quotient(both, options);
}

// The rows of padded queries come out as zero where their features are, but for an offset.
torch::Tensor padded_readout(const torch::Tensor& q_features, const torch::Tensor& sums,
                             const LinearAttentionCall& call) {
  const torch::Tensor out = normalised_readout(q_features, sums, call.options);
  return call.options.offset == 0 ? out : zero_padded_rows(out, call.mask);
}

// elu(x) + 1 as exp(min(x, 0)) + max(x, 0), and zero where x is padding: elu(x) itself rounds to -1
// from x = -6 on in bfloat16. What padding holds reaches neither the result, which is replaced, nor
// the gradient: those of min and max are zero, not a product, wherever x is NaN.
torch::Tensor elu_features(const torch::Tensor& x, const torch::Tensor& mask) {
  torch::Tensor below = x.clamp_max(0).exp_();
  const torch::Tensor above = torch::relu(x);
  // Autograd keeps both parts; without it the sum takes the place of one.
  const torch::Tensor sum = below.requires_grad() ? below + above : below.add_(above);
  return sum.masked_fill_(mask.logical_not().unsqueeze(1).unsqueeze(-1), 0);
}

torch::Tensor elu_attention(const LinearAttentionCall& call) {
  const auto& [q, k, v, mask, table, options] = call;
  torch::Tensor sums;  // [B,H,d,d+1], or [B,H,d,d] without the denominator
  if (options.normalise) {
    sums = key_value_sums(elu_features(k, mask), values_with_ones(v, mask), options.offset);
  } else {
    const double share = 1 / std::sqrt(static_cast<double>(q.size(2)));
    sums = torch::matmul(elu_features(k, mask).transpose(-2, -1), zero_padding(v, mask)) * share;
  }
  const torch::Tensor features = elu_features(q, mask);
  return options.normalise ? padded_readout(features, sums, call) : torch::matmul(features, sums);
}

torch::Tensor cosine_attention(const LinearAttentionCall& call) {
  const auto& [q, k, v, mask, table, options] = call;
  const torch::Tensor phase =
      table.to(q.scalar_type()).view({table.size(0), 1, table.size(1), 2, 1});
  const auto features = [&](const torch::Tensor& x) {  // [B,H,N,d] -> [B,H,N,2d]
    return (torch::relu(zero_padding(x, mask)).unsqueeze(-2) * phase).flatten(-2);
  };
  const torch::Tensor sums =
      key_value_sums(features(k), values_with_ones(v, mask), options.offset);  // [B,H,2d,d+1]
  return padded_readout(features(q), sums, call);
}

// The largest W x of each position [B,H,N,1]. For autograd it is computed once more from the row of
// W that attains it, so that its gradient needs neither logits [B,H,N,f] nor a tensor of that size.
torch::Tensor largest_logit(const torch::Tensor& x, const torch::Tensor& w,
                            const torch::Tensor& logits) {
  if (!logits.requires_grad()) return logits.amax(-1, /*keepdim=*/true);
  // max() and not argmax(), which takes three times as long on CPUs.
  const torch::Tensor feature = std::get<1>(logits.detach().max(-1));  // [B,H,N]
  return (x * w.index_select(0, feature.flatten()).view(x.sizes())).sum(-1, /*keepdim=*/true);
}

// The largest of each sample and head [B,H,1,1], over the positions seen [B,N].
torch::Tensor largest_logit(const torch::Tensor& x, const torch::Tensor& w,
                            const torch::Tensor& logits, const torch::Tensor& seen,
                            KeyMax key_max) {
  const torch::Tensor largest =
      logits.detach().amax(-1).masked_fill(seen.logical_not().unsqueeze(1),
                                           -std::numeric_limits<double>::infinity());  // [B,H,N]
  if (key_max == KeyMax::batch && largest.numel() > 0) {                               // [1,1,1,1]
    const torch::Tensor at = largest.flatten().argmax(0, /*keepdim=*/true);
    const auto one = [&](const torch::Tensor& t) {
      return t.reshape({-1, t.size(3)}).index_select(0, at).view({1, 1, 1, t.size(3)});
    };
    return largest_logit(one(x), w, one(logits));
  }
  const torch::Tensor position = largest.argmax(-1, /*keepdim=*/true).unsqueeze(-1);  // [B,H,1,1]
  const auto row = [&](const torch::Tensor& t) {
    return t.gather(2, position.expand({-1, -1, 1, t.size(3)}));
  };
  return largest_logit(row(x), w, row(logits));
}

// φ without its offset, x [B,H,N,d] -> [B,H,N,f], in the type of W, at least float32 whatever that
// of x: an exponent of 80 in bfloat16 is off by a quarter. Of queries where `seen` is undefined,
// else of keys with c the maximum over the positions seen [B,N].
torch::Tensor projected_features(const torch::Tensor& x_given, const torch::Tensor& w,
                                 const torch::Tensor& seen, const LinearAttentionOptions& options) {
  const NoAutocast guard;
  const torch::Tensor x = x_given.to(w.scalar_type());
  torch::Tensor logits = torch::matmul(x, w.t());  // W x [B,H,N,f]
  if (options.map == FeatureMap::relu) return logits.relu_();
  torch::Tensor shift = x.square().sum(-1, /*keepdim=*/true) * options.norm;  // norm ‖x‖² [B,H,N,1]
  const bool queries = !seen.defined();
  torch::Tensor largest =
      queries ? largest_logit(x, w, logits) : largest_logit(x, w, logits, seen, options.key_max);
  if (options.max_gradient == MaxGradient::detached) largest = largest.detach();
  shift = shift + largest;
  // At positions not seen x is zero; the exponential is 1 there instead of exp(-c).
  if (!queries) shift = shift.masked_fill(seen.logical_not().unsqueeze(1).unsqueeze(-1), 0);
  // In place: autograd needs the exponential alone.
  return logits.sub_(shift).exp_();
}

torch::Tensor projected_attention(const LinearAttentionCall& call) {
  const auto& [q, k, v, mask, table, options] = call;
  const torch::Tensor seen = options.count_padding ? torch::ones_like(mask) : mask;
  const torch::Tensor values =
      values_with_ones(options.count_padding ? zero_padding(v, mask) : v, seen);  // [B,H,N,d+1]
  // The features of the keys are gone before those of the queries are made.
  const torch::Tensor sums = key_value_sums(
      projected_features(zero_padding(k, mask), table, seen, options).to(v.scalar_type()), values,
      options.offset);  // [B,H,f,d+1]
  const torch::Tensor out =
      normalised_readout(projected_features(zero_padding(q, mask), table, torch::Tensor(), options)
                             .to(v.scalar_type()),
                         sums, options);
  return zero_padded_rows(out.to(q.scalar_type()), mask);
}

}  // namespace

torch::Tensor causal_linear_attention(const LinearAttentionCall& call) {
  const auto& [q, k, v, mask, table, options] = call;
  if (options.map != FeatureMap::elu || !options.normalise || options.offset != 0)
    throw Error("of linear attentions, that of elu(x) + 1 with a denominator has a causal form");
  const int64_t length = q.size(2), chunks = (length + kCausalChunk - 1) / kCausalChunk,
                added = chunks * kCausalChunk - length;
  const auto cut = [&](const torch::Tensor& x) {  // [B,H,N,e] -> [B,H,chunks,C,e]
    return at::constant_pad_nd(x, {0, 0, 0, added}).unflatten(2, {chunks, kCausalChunk});
  };
  const torch::Tensor queries = cut(elu_features(q, mask)), keys = cut(elu_features(k, mask)),
                      values = cut(values_with_ones(v, mask));
  // Of all chunks but the last, moved on by one: the chunk's own, subtracted from a running sum,
  // would leave its rounding behind. [B,H,chunks,d,d+1]
  const torch::Tensor sums =
      torch::matmul(keys.narrow(2, 0, chunks - 1).mT(), values.narrow(2, 0, chunks - 1)).cumsum(2);
  const torch::Tensor before = at::constant_pad_nd(sums, {0, 0, 0, 0, 1, 0});
  const torch::Tensor within =
      torch::matmul(queries, keys.mT()).masked_fill(up_to_row(kCausalChunk, mask).logical_not(), 0);
  const torch::Tensor both = (torch::matmul(queries, before) + torch::matmul(within, values))
                                 .flatten(2, 3)
                                 .narrow(2, 0, length);  // [B,H,N,d+1]
  // The rows of padded queries come out as zero because their features are.
  return quotient(both, options).to(q.scalar_type());
}

int64_t causal_linear_flops(int64_t rows, int64_t length, int64_t head_dim) {
  const int64_t chunks = (length + kCausalChunk - 1) / kCausalChunk, d = head_dim;
  // Of a chunk: its sums, but for the last one's, and what its queries read of those before,
  // d (d + 1) each, its weights, and what they make of its values.
  return 2 * rows * kCausalChunk *
         ((2 * chunks - 1) * d * (d + 1) + chunks * kCausalChunk * (2 * d + 1));
}

torch::Tensor run(const LinearAttentionCall& call) {
  switch (call.options.map) {
    case FeatureMap::elu:
      return elu_attention(call).to(call.q.scalar_type());
    case FeatureMap::cosine:
      return cosine_attention(call).to(call.q.scalar_type());
    case FeatureMap::relu:
    case FeatureMap::softmax:
      break;
  }
  return projected_attention(call);
}

int64_t bytes(const LinearAttentionShape& shape) {
  const int64_t rows = shape.batch * shape.heads, d = shape.head_dim, f = shape.width,
                length = shape.length, element_size = shape.element_size;
  switch (shape.options.map) {
    case FeatureMap::elu:
      // With the denominator: of the queries their features, the numerator with its denominator,
      // this once more, and the quotient. Else the values, while two parts of the features of the
      // keys are made.
      return rows * length * (3 * d + (shape.options.normalise ? 2 : 0)) * element_size;
    case FeatureMap::cosine:
      // While the queries are read: zeroed, their features of twice the width, the numerator with
      // its denominator, and the output.
      return rows * length * (d + 2 * d + (d + 1) + d) * element_size;
    case FeatureMap::relu:
    case FeatureMap::softmax:
      break;
  }
  // While the queries are read: the values with their column of ones, the keys' sums, and of the
  // queries themselves, their features, and the numerator with its denominator before and after its
  // offset. Features are of float32 at least.
  const int64_t features = rows * length * f * std::max<int64_t>(element_size, 4);
  return features + rows * (length * (3 * (d + 1) + d) + f * (d + 1)) * element_size;
}

}  // namespace lra::ops::reference
