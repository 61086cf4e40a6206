// Attention operators: softmax with many or few keys and queries, and the variants that are one
// operator.
#include "attention_variants/ops/reference/softmax_attention.h"
#include "attention_variants/ops/softmax_attention.h"
#include "attention_variants/projected_attention.h"
#include "attention_variants/registry.h"
#include "tests/bench/bench.h"

namespace lra {
namespace {

const std::vector<int64_t> kLengths = {512, 1024, 2048, 4096};

BenchWork softmax_work(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                       Kernels kernels) {
  const int64_t queries = q.size(2), keys = k.size(2);
  const auto mask = torch::ones({1, keys}, torch::kBool);
  return differentiable(
      [=](bool) {
        return kernels == Kernels::fused ? ops::softmax_attention(kernels, {q, k, v, mask})
                                         : ops::reference::softmax_attention(q, k, v, mask);
      },
      {q, k, v}, 4.0 * kHeads * static_cast<double>(queries * keys) * kWidth);
}

// Of `queries` to `keys` positions; 0 = N.
BenchOperator softmax_of(const std::string& name, int64_t queries, int64_t keys) {
  return {.name = name, .size_name = "N", .sizes = kLengths, .make = [=](int64_t n, Kernels path) {
            const int64_t of_keys = keys > 0 ? keys : n;
            return softmax_work(head_vectors(queries > 0 ? queries : n), head_vectors(of_keys),
                                head_vectors(of_keys), path);
          }};
}

// Of heads as a model's projections lay them out: rows of all heads side by side.
BenchOperator softmax_of_joined_heads() {
  return {.name = "SoftmaxOfJoinedHeads",
          .size_name = "N",
          .sizes = kLengths,
          .make = [](int64_t n, Kernels path) {
            const auto heads = [n] {
              return torch::randn({1, n, kHeads, kWidth}).transpose(1, 2).requires_grad_();
            };
            return softmax_work(heads(), heads(), heads(), path);
          }};
}

// attend() of a variant at its defaults.
BenchOperator variant(const std::string& name, const std::string& attention) {
  return {.name = name, .size_name = "N", .sizes = kLengths, .make = [=](int64_t n, Kernels path) {
            const AttentionContext context{.width = kHeads * kWidth,
                                           .heads = kHeads,
                                           .head_dim = kWidth,
                                           .max_length = n,
                                           .kernels = path};
            const auto layer = make_attention(parse_attention(attention), context);
            const bool shared = layer->projections() == Projections::shared_query_key;
            const auto q = head_vectors(n), k = shared ? q : head_vectors(n), v = head_vectors(n);
            const auto mask = torch::ones({1, n}, torch::kBool);
            std::vector<torch::Tensor> leaves = {q, v};
            if (!shared) leaves.push_back(k);
            for (const auto& parameter : layer->named_parameters()) {
              if (!is_projection(parameter.key())) leaves.push_back(parameter.value());
            }
            return differentiable(
                [=](bool training) {
                  layer->train(training);
                  return layer->attend(q, k, v, mask);
                },
                leaves, static_cast<double>(layer->flops(1, n)));
          }};
}

}  // namespace

std::vector<BenchOperator> attention_operators() {
  return {softmax_of("SoftmaxAttention", 0, 0),
          softmax_of_joined_heads(),
          variant("SoftmaxAttentionWithDropout", "standard[dropout=0.1]"),
          softmax_of("SoftmaxTo64Keys", 0, 64),
          softmax_of("SoftmaxTo256Keys", 0, 256),
          softmax_of("SoftmaxOf64Queries", 64, 0),
          variant("NystromAttention", "nystrom"),
          variant("LinearAttention", "linear"),
          variant("PerformerAttention", "performer"),
          variant("LinformerAttention", "linformer"),
          variant("ReformerAttention", "reformer"),
          variant("LongformerAttention", "longformer"),
          variant("BigBirdAttention", "bigbird"),
          variant("LocalAttention", "local"),
          variant("SparseAttention", "sparse"),
          variant("CosformerAttention", "cosformer")};
}

}  // namespace lra
