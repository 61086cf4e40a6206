// An attention computed by own kernels, by LibTorch's operators, and in float64: what tests of
// kernels share.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "attention_variants/ops/autocast.h"
#include "attention_variants/projected_attention.h"
#include "attention_variants/registry.h"
#include "attention_variants/torch.h"

namespace lra {

/// The result and the gradients towards q, k, v (or v and what is both q and k) and all parameters;
/// q, k and v are given in `stored`, or as `type`, as which the attention is.
inline std::vector<torch::Tensor> evaluate(const AttentionSpec& spec,
                                           const AttentionContext& context, torch::ScalarType type,
                                           std::vector<torch::Tensor> inputs,
                                           const torch::Tensor& mask, const torch::Tensor& gradient,
                                           ops::Dtype autocast = ops::Dtype::float32,
                                           std::optional<torch::ScalarType> stored = {}) {
  torch::manual_seed(3);
  auto attention = make_attention(spec, context);
  attention->to(type);
  const bool shared = attention->projections() == Projections::shared_query_key;
  if (shared) inputs.erase(inputs.begin() + 1);
  for (torch::Tensor& x : inputs) x = x.to(stored.value_or(type)).detach().requires_grad_();
  torch::Tensor out;
  {
    const ops::AutocastScope scope(torch::kCPU, autocast);
    out = attention->attend(inputs[0], inputs[shared ? 0 : 1], inputs.back(), mask);
  }
  std::vector<torch::Tensor> towards = inputs;
  for (const auto& parameter : attention->named_parameters()) {
    if (!is_projection(parameter.key())) towards.push_back(parameter.value());
  }
  std::vector<torch::Tensor> all =
      torch::autograd::grad({out}, towards, {gradient.to(out.scalar_type())});
  all.insert(all.begin(), out.detach());
  return all;
}

enum class ParityPadding { none, end, scattered };

struct ParityCase {
  std::string attention;
  int64_t batch, heads, length, head_dim;
  ParityPadding padding;
};
inline void PrintTo(const ParityCase& c, std::ostream* to) {
  const char* paddings[] = {"no padding", "padded at the end", "padded anywhere"};
  *to << fmt::format("{} of {}x{}x{}x{}, {}", c.attention, c.batch, c.heads, c.length, c.head_dim,
                     paddings[static_cast<int>(c.padding)]);
}

/// q, k, v and the gradient of the result.
struct ParityInputs {
  torch::Tensor mask;
  std::vector<torch::Tensor> inputs;
  torch::Tensor gradient;
  AttentionContext context;

  explicit ParityInputs(const ParityCase& c)
      : mask(torch::ones({c.batch, c.length}, torch::kBool)),
        context{.width = c.heads * c.head_dim,
                .heads = c.heads,
                .head_dim = c.head_dim,
                .max_length = c.length} {
    torch::manual_seed(1);
    if (c.padding == ParityPadding::end) {
      for (int64_t b = 1; b < c.batch; ++b) mask[b].slice(0, c.length * b / c.batch).fill_(false);
    } else if (c.padding == ParityPadding::scattered) {
      mask = torch::rand({c.batch, c.length}).gt(0.4);
      mask[0].fill_(false);
    }
    const auto draw = [&] {
      return torch::randn({c.batch, c.length, c.heads, c.head_dim}).transpose(1, 2);
    };
    inputs = {draw(), draw(), draw()};
    gradient = draw();
  }

  std::vector<torch::Tensor> results(const ParityCase& c, Kernels kernels, torch::ScalarType type,
                                     ops::Dtype autocast = ops::Dtype::float32,
                                     std::optional<torch::ScalarType> stored = {}) {
    context.kernels = kernels;
    return evaluate(parse_attention(c.attention), context, type, inputs, mask, gradient, autocast,
                    stored);
  }
};

}  // namespace lra
