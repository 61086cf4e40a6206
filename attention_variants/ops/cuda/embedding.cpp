#include "attention_variants/ops/autograd_state.h"
#include "attention_variants/ops/cuda/device_table.h"
#include "attention_variants/ops/cuda/dropout.h"
#include "attention_variants/ops/cuda/operators.h"
#include "attention_variants/ops/cuda/rows.h"
#include "attention_variants/ops/heads.h"

namespace lra::ops::cuda {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// What the backward pass is told beside the ids and the mask.
struct EmbeddingSettings {
  DropoutStream dropout;
  torch::ScalarType type;
  int64_t vocabulary, positions;  // rows of the tables
  bool first;
};

EmbeddingParams params_of(const torch::Tensor& ids, const torch::Tensor& mask, int64_t width,
                          const EmbeddingSettings& settings) {
  return {.storage = settings.type == torch::kFloat ? Storage::f32 : Storage::bf16,
          .batch = static_cast<int>(ids.size(0)),
          .length = static_cast<int>(ids.size(1)) + (settings.first ? 1 : 0),
          .width = static_cast<int>(width),
          .vocabulary = static_cast<int>(settings.vocabulary),
          .ids = data_of<int64_t>(ids),
          .mask = mask_of(mask),
          .has_first = settings.first,
          .dropout = settings.dropout};
}

class Embedding : public torch::autograd::Function<Embedding> {
 public:
  // `first` [D], or [0] where there is none.
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& tokens,
                               const torch::Tensor& positions, const torch::Tensor& first,
                               const torch::Tensor& ids, const torch::Tensor& mask,
                               const DropoutStream& dropout) {
    const int64_t width = tokens.size(1);
    const EmbeddingSettings settings{.dropout = dropout,
                                     .type = tokens.scalar_type(),
                                     .vocabulary = tokens.size(0),
                                     .positions = positions.size(0),
                                     .first = first.numel() > 0};
    EmbeddingParams p = params_of(ids, mask, width, settings);
    torch::Tensor y = torch::empty({p.batch, p.length, width}, tokens.options());
    p.tokens = data_of(tokens);
    p.positions = data_of(positions);
    p.first = data_of(first);
    p.y = data_of(y);
    start(&KernelTable::embedding_forward, tokens, p);
    context->save_for_backward({ids, mask});
    save_settings(*context, settings);
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list kept = saved_tensors(*context);
    const auto& settings = saved_settings<EmbeddingSettings>(*context);
    const torch::Tensor grad = dense(gradients[0]);
    const int64_t width = grad.size(2);
    EmbeddingParams p = params_of(kept[0], kept[1], width, settings);
    const auto sums = grad.options().dtype(torch::kFloat);
    const torch::Tensor parts =
        torch::empty({embedding_parts(p.length), settings.vocabulary, width}, sums);
    torch::Tensor positions, first;
    if (context->needs_input_grad(1)) {  // those that no token has stay zero
      positions = settings.positions > p.length ? torch::zeros({settings.positions, width}, sums)
                                                : torch::empty({settings.positions, width}, sums);
    }
    if (settings.first) first = torch::empty({width}, sums);
    p.grad_y = data_of(grad);
    p.token_parts = data_of<float>(parts);
    p.grad_positions = data_of<float>(positions);
    p.grad_first = data_of<float>(first);
    start(&KernelTable::embedding_backward, grad, p);
    const auto typed = [&](const torch::Tensor& x) {
      return x.defined() ? x.to(settings.type) : x;
    };
    return {typed(sum_parts(parts).view({settings.vocabulary, width})),
            typed(positions),
            typed(first),
            {},
            {},
            {}};
  }
};

}  // namespace

bool takes(const Place& place, const EmbeddingShape& shape) {
  return has_kernels(place) && shape.dropout < 1 && shape.vocabulary <= kMostEmbeddedTokens &&
         has_room(place, embedding_shared_bytes(shape.vocabulary));
}

torch::Tensor run(const EmbeddingCall& call) {
  const auto& [tokens, positions, first] = call.tables;
  const int64_t length = call.ids.size(-1) + (first.defined() ? 1 : 0);
  TORCH_CHECK(call.ids.dim() == 2 && length <= positions.size(0),
              "ids should be [B,N] with at most ", positions.size(0), " positions, not ",
              call.ids.sizes());
  const torch::ScalarType type = tokens.scalar_type();
  const torch::Tensor none = torch::empty({0}, tokens.options());
  const int64_t count = call.ids.size(0) * length * tokens.size(1);
  return Embedding::apply(dense(tokens), dense(positions.to(type)),
                          first.defined() ? dense(first.to(type)) : none, dense(call.ids),
                          kept_mask(call.mask, tokens),
                          stream_of(draw_dropout(call.dropout, call.training, count)));
}

}  // namespace lra::ops::cuda
