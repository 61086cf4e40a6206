#include "attention_variants/ops/reference/softmax_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "attention_variants/ops/dropout.h"
#include "attention_variants/ops/padding.h"
#include "attention_variants/ops/reference/account.h"
#include "attention_variants/ops/reference/operators.h"

namespace lra::ops::reference {
namespace {

// How many tokens each sample has, where padding stands behind all of them; else empty.
std::vector<int64_t> lengths_of(const torch::Tensor& mask) {
  const torch::Tensor count = mask.sum(1);
  const torch::Tensor position = torch::arange(mask.size(1), count.options());
  if (!torch::equal(position.unsqueeze(0) < count.unsqueeze(1), mask)) return {};
  return {count.data_ptr<int64_t>(), count.data_ptr<int64_t>() + count.numel()};
}

// Softmax attention of a padded batch, each sample without its padding: cost goes with the
// squares of the true lengths, and not with that of the longest.
torch::Tensor attend_per_sample(const torch::Tensor& q, const torch::Tensor& k,
                                const torch::Tensor& v, const std::vector<int64_t>& lengths) {
  const int64_t padded = q.size(2);
  // Taken apart once, so that the gradients are put together once.
  const auto qs = q.unbind(0), ks = k.unbind(0), vs = v.unbind(0);
  std::vector<torch::Tensor> out;
  for (size_t b = 0; b < lengths.size(); ++b) {
    const int64_t length = lengths[b];
    const auto real = [length](const torch::Tensor& x) {
      return x.narrow(1, 0, length).unsqueeze(0);
    };
    const torch::Tensor one =  // [1,H,length,d]; without a token there is no row
        at::scaled_dot_product_attention(real(qs[b]), real(ks[b]), real(vs[b]));
    out.push_back(at::constant_pad_nd(one.squeeze(0), {0, 0, 0, padded - length}));
  }
  return torch::stack(out);
}

// The rows of padded queries are dropped, but backward an infinite logit in one, between two padded
// positions, would make the gradients of k and v NaN.
torch::Tensor finite_queries(const torch::Tensor& q, const torch::Tensor& mask) {
  return q.requires_grad() ? zero_padding(q, mask) : q;
}

// Without N x N, and on CPUs, where there is no dropout, without work for the padding behind a
// sample.
torch::Tensor attend_by_length(const torch::Tensor& q, const torch::Tensor& k,
                               const torch::Tensor& v, const torch::Tensor& mask, double dropout) {
  if (FullMask::covers(mask)) return softmax_attention(q, k, v, {}, dropout);
  const std::vector<int64_t> lengths = mask.is_cpu() ? lengths_of(mask) : std::vector<int64_t>{};
  if (lengths.empty())
    return softmax_attention(finite_queries(q, mask), zero_padding(k, mask), zero_padding(v, mask),
                             mask, dropout);
  if (*std::ranges::min_element(lengths) == q.size(2)) return softmax_attention(q, k, v, {});
  return attend_per_sample(q, k, v, lengths);
}

torch::Tensor unless_full(const torch::Tensor& mask) {
  return FullMask::covers(mask) ? torch::Tensor() : mask;
}

torch::Tensor zeroed(const torch::Tensor& x, const torch::Tensor& mask) {
  return mask.defined() ? zero_padding(x, mask) : x;
}

torch::Tensor attend_by_stored_weights(const SoftmaxAttentionCall& call) {
  const auto& [q, k, v, given_keys, given_queries, options, distance_bias] = call;
  const torch::Tensor keys = unless_full(given_keys), queries = unless_full(given_queries);
  torch::Tensor scores = stored_scores(zeroed(q, queries), zeroed(k, keys));
  if (distance_bias.defined()) scores = scores + bias_of_pairs(distance_bias, q.size(2), k.size(2));
  // Finite: a row that sees nothing has equal weights, and is dropped.
  if (keys.defined()) scores.masked_fill_(keys.logical_not().unsqueeze(1).unsqueeze(1), -1e30);
  const torch::Tensor weights =
      drop_weights(torch::softmax(scores, -1), options.dropout, options.training);
  torch::Tensor out = torch::matmul(weights, zeroed(v, keys)).to(q.scalar_type());
  if (queries.defined()) out = zero_padded_rows(out, queries);
  if (!keys.defined() || keys.is_same(queries)) return out;
  return zero_padded_rows(out, keys.any(1, /*keepdim=*/true).expand({-1, q.size(2)}));
}

}  // namespace

torch::Tensor stored_scores(const torch::Tensor& q, const torch::Tensor& k) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(q.size(-1)));
  return torch::matmul(q * scale, k.transpose(-2, -1));
}

torch::Tensor drop_weights(const torch::Tensor& weights, double p, bool training) {
  if (!training || p == 0) return weights;
  if (!weights.is_cpu()) return torch::dropout(weights, p, training);
  const int64_t batch = weights.size(0), heads = weights.size(1), queries = weights.size(2),
                keys = weights.size(3),
                tiles = (queries + kWeightDropoutTile - 1) / kWeightDropoutTile;
  torch::Tensor factors;
  {
    const torch::NoGradGuard no_grad;
    factors = philox_dropout(
        torch::ones({batch, heads, tiles, keys, kWeightDropoutTile}, weights.options()), p,
        training);
    factors = factors.transpose(3, 4).reshape({batch, heads, tiles * kWeightDropoutTile, keys});
  }
  return weights * factors.narrow(2, 0, queries);
}

torch::Tensor bias_of_pairs(const torch::Tensor& of_distance, int64_t queries, int64_t keys) {
  const auto places = torch::TensorOptions(of_distance.device()).dtype(torch::kLong);
  const torch::Tensor distance = torch::arange(keys, places).unsqueeze(0) -
                                 torch::arange(queries, places).unsqueeze(1);  // j - i
  return of_distance.index_select(0, (distance + of_distance.size(0) / 2).flatten())
      .view({queries, keys});
}

torch::Tensor softmax_attention(const torch::Tensor& q, const torch::Tensor& k,
                                const torch::Tensor& v, const torch::Tensor& keys, double dropout) {
  std::optional<torch::Tensor> bias;
  // [B,1,1,N]: the fused kernels broadcast it; expanding it to [B,1,M,N] would store it and is
  // slower besides.
  if (keys.defined()) bias = nonempty_rows(keys).unsqueeze(1).unsqueeze(1);
  return at::scaled_dot_product_attention(q, k, v, bias, dropout);
}

torch::Tensor materialized_attention(const torch::Tensor& q, const torch::Tensor& k,
                                     const torch::Tensor& v, const torch::Tensor& mask,
                                     double dropout, bool training) {
  torch::Tensor scores = stored_scores(finite_queries(q, mask), zero_padding(k, mask));
  scores.masked_fill_(nonempty_rows(mask).logical_not().unsqueeze(1).unsqueeze(1),
                      -std::numeric_limits<double>::infinity());
  torch::Tensor weights = torch::softmax(scores, -1);  // [B,H,N,N]
  weights = drop_weights(weights, dropout, training);
  return zero_padded_rows(torch::matmul(weights, zero_padding(v, mask)).to(q.scalar_type()), mask);
}

torch::Tensor run(const SoftmaxAttentionCall& call) {
  const auto& [q, k, v, given_keys, given_queries, options, distance_bias] = call;
  if (distance_bias.defined()) return attend_by_stored_weights(call);
  const double dropout = options.training ? options.dropout : 0;
  const torch::Tensor keys = options.per_sample ? given_keys : unless_full(given_keys),
                      queries = options.per_sample ? given_queries : unless_full(given_queries);
  // LibTorch's fused attention on CPUs leaves its fused path for an N x N one when given a dropout;
  // so that the same weights are dropped as by the kernel, these take its place.
  if (dropout > 0 && q.is_cpu()) {
    return options.per_sample ? materialized_attention(q, k, v, keys, dropout, options.training)
                              : attend_by_stored_weights(call);
  }
  if (options.per_sample) {
    const torch::Tensor out = attend_by_length(q, k, v, keys, dropout).to(q.scalar_type());
    return FullMask::covers(queries) ? out : zero_padded_rows(out, queries);
  }
  const torch::Tensor out =
      softmax_attention(zeroed(q, queries), zeroed(k, keys), zeroed(v, keys), keys, dropout)
          .to(q.scalar_type());
  return queries.defined() ? zero_padded_rows(out, queries) : out;
}

int64_t bytes(const SoftmaxAttentionShape& shape) {
  const auto& [dropout, training, per_sample] = shape.options;
  // What drop_weights() and autograd keep, or when autograd frees what.
  if (shape.reach > 0 || (training && (dropout > 0 || !per_sample))) return -1;
  const int64_t out = shape.rows * shape.queries * shape.values * shape.element_size,
                zeroed_q = shape.rows * shape.queries * shape.depth * shape.element_size,
                zeroed_kv =
                    shape.rows * shape.keys * (shape.depth + shape.values) * shape.element_size,
                beside = fused_attention_bytes(shape.rows, shape.queries, shape.keys, shape.depth,
                                               shape.element_size);
  // Without padding, or with padding behind the tokens; else copies of k and v are added.
  // Training: the output before and after zeroing, then its gradient, those of q, k and v, and a
  // working copy; the tiles of the backward pass are left out.
  if (per_sample) return beside + (training ? 7 : 1) * out;
  return beside + out + zeroed_q + (shape.key_mask ? zeroed_kv : 0);
}

}  // namespace lra::ops::reference
