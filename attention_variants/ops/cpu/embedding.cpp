#include <vector>

#include "attention_variants/ops/autograd_state.h"
#include "attention_variants/ops/cpu/dropout.h"
#include "attention_variants/ops/cpu/kernels/rows/row_ops.h"
#include "attention_variants/ops/cpu/operators.h"
#include "attention_variants/ops/cpu/row_tiles.h"

namespace lra::ops::cpu {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class Embedding : public torch::autograd::Function<Embedding> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& tokens_given,
                               const torch::Tensor& positions_given, const torch::Tensor& ids_given,
                               const torch::Tensor& mask, DropoutMask dropout) {
    const torch::Tensor tokens = tokens_given.contiguous(),
                        positions = positions_given.contiguous(), ids = ids_given.contiguous();
    const int64_t width = tokens.size(1), length = ids.size(1);
    const torch::Tensor y = torch::empty({ids.size(0), length, width}, tokens.options());
    const int64_t* id = ids.const_data_ptr<int64_t>();
    const float *token = tokens.const_data_ptr<float>(),
                *position = positions.const_data_ptr<float>();
    float* to = y.mutable_data_ptr<float>();
    const auto tile = [&](int64_t, int64_t begin, int64_t rows) {
      for (int64_t r = begin; r < begin + rows; ++r)
        add(token + id[r] * width, position + r % length * width, width, to + r * width);
      float* from = to + begin * width;
      apply_dropout(dropout, begin * width, rows * width, from, from);
    };
    parallel_for_row_tiles(ids.numel(), mask_data(mask), tile, zero_skipped_rows(to, width));
    context->save_for_backward({ids, mask});
    context->saved_data["vocabulary"] = tokens.size(0);
    context->saved_data["positions"] = positions.size(0);
    save_dropout(*context, "dropout", dropout);
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list kept = saved_tensors(*context);
    const torch::Tensor &ids = kept[0], &mask = kept[1], grad = gradients[0].contiguous();
    const DropoutMask dropout = saved_dropout(*context, "dropout");
    const int64_t width = grad.size(-1), length = ids.size(1);
    const bool learned = context->needs_input_grad(1);
    const auto table = [&](const char* rows) {
      return torch::zeros({context->saved_data.at(rows).toInt(), width}, grad.options());
    };
    // A table of sums a part, added up in the order of the parts.
    struct Sums {
      torch::Tensor tokens, positions;
    };
    std::vector<Sums> sums;
    for (int64_t part = 0; part < row_tile_workers(ids.numel()); ++part)
      sums.push_back({table("vocabulary"), learned ? table("positions") : torch::Tensor()});
    const int64_t* id = ids.const_data_ptr<int64_t>();
    const float* from = grad.const_data_ptr<float>();
    std::vector<std::vector<float>> scratch(
        sums.size(), std::vector<float>(static_cast<size_t>(kRowTile * width)));
    const auto tile = [&](int64_t part, int64_t begin, int64_t rows) {
      const Sums& own = sums[static_cast<size_t>(part)];
      float* dropped = scratch[static_cast<size_t>(part)].data();
      reapply_dropout(dropout, begin * width, rows * width, from + begin * width, dropped);
      float* tokens = own.tokens.mutable_data_ptr<float>();
      float* positions = learned ? own.positions.mutable_data_ptr<float>() : nullptr;
      for (int64_t r = 0; r < rows; ++r) {
        const float* row = dropped + r * width;
        float* of = tokens + id[begin + r] * width;
        add(of, row, width, of);
        if (!learned) continue;
        float* at = positions + (begin + r) % length * width;
        add(at, row, width, at);
      }
    };
    parallel_for_row_tiles(ids.numel(), mask_data(mask), tile, [](int64_t, int64_t) {});
    for (size_t part = 1; part < sums.size(); ++part) {
      sums[0].tokens += sums[part].tokens;
      if (learned) sums[0].positions += sums[part].positions;
    }
    return {sums[0].tokens, sums[0].positions, {}, {}, {}};
  }
};

}  // namespace

bool takes(const Place& place, const EmbeddingShape& shape) {
  return is_cpu_float(place) && !shape.first && shape.dropout < 1;
}

torch::Tensor run(const EmbeddingCall& call) {
  const auto& [ids, tables, dropout, training, mask] = call;
  const int64_t vocabulary = tables.tokens.size(0), width = tables.tokens.size(1);
  TORCH_CHECK(ids.dim() == 2 && ids.size(1) <= tables.positions.size(0),
              "ids should be [B,N] with N of at most ", tables.positions.size(0), ", not ",
              ids.sizes());
  if (ids.numel() > 0) {
    const auto [least, most] = ids.aminmax();
    TORCH_CHECK(least.item<int64_t>() >= 0 && most.item<int64_t>() < vocabulary,
                "token ids should be from 0 to ", vocabulary - 1, ", not ", least.item<int64_t>(),
                " to ", most.item<int64_t>());
  }
  return Embedding::apply(tables.tokens, tables.positions, ids, kept_mask(mask),
                          make_dropout_mask(dropout, training, ids.numel() * width));
}

}  // namespace lra::ops::cpu
