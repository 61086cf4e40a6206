#include <vector>

#include "attention_variants/ops/autograd_state.h"
#include "attention_variants/ops/cpu/dropout.h"
#include "attention_variants/ops/cpu/index_check.h"
#include "attention_variants/ops/cpu/kernels/rows/row_ops.h"
#include "attention_variants/ops/cpu/operators.h"
#include "attention_variants/ops/cpu/row_tiles.h"
#include "attention_variants/ops/heads.h"

namespace lra::ops::cpu {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The gradient of a tile before its dropout.
struct TileGrad {
  float* rows;  // [kRowTile,D]

  TileGrad(int64_t width, Arena& arena) : rows(arena.take(kRowTile * width)) {}
};

struct Tables {
  torch::Tensor tokens, positions;  // [V,D], [positions,D]
};

class Embedding : public torch::autograd::Function<Embedding> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& tokens_given,
                               const torch::Tensor& positions_given, const torch::Tensor& ids_given,
                               const torch::Tensor& mask, DropoutMask dropout) {
    const torch::Tensor tokens = dense(tokens_given), positions = dense(positions_given),
                        ids = dense(ids_given);
    const int64_t width = tokens.size(1), length = ids.size(1);
    const torch::Tensor y = torch::empty({ids.size(0), length, width}, tokens.options());
    const int64_t* id = ids.const_data_ptr<int64_t>();
    const float *token = tokens.const_data_ptr<float>(),
                *position = positions.const_data_ptr<float>();
    float* to = y.mutable_data_ptr<float>();
    const auto tile = [&](int64_t, int64_t begin, int64_t rows) {
      add_embeddings(token, position, id + begin, begin, length, rows, width, to + begin * width);
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
    const torch::Tensor &ids = kept[0], &mask = kept[1], grad = dense(gradients[0]);
    const DropoutMask dropout = saved_dropout(*context, "dropout");
    const int64_t width = grad.size(-1), length = ids.size(1);
    const bool learned = context->needs_input_grad(1);
    const int64_t workers = row_tile_workers(ids.numel());
    const auto table = [&](const char* rows) {
      return torch::zeros({context->saved_data.at(rows).toInt(), width}, grad.options());
    };
    // Tables of sums a worker, added up in the order of the workers to those of the first.
    std::vector<Tables> sums;
    for (int64_t worker = 0; worker < workers; ++worker)
      sums.push_back({table("vocabulary"), learned ? table("positions") : torch::Tensor()});
    RowTileWorkers<TileGrad> scratch(workers, width);
    const int64_t* id = ids.const_data_ptr<int64_t>();
    const float* from = grad.const_data_ptr<float>();
    const auto tile = [&](int64_t worker, int64_t begin, int64_t rows) {
      const Tables& own = sums[static_cast<size_t>(worker)];
      float* dropped = scratch[worker].rows;
      reapply_dropout(dropout, begin * width, rows * width, from + begin * width, dropped);
      add_embedding_grads(dropped, id + begin, begin, length, rows, width,
                          own.tokens.mutable_data_ptr<float>(),
                          learned ? own.positions.mutable_data_ptr<float>() : nullptr);
    };
    parallel_for_row_tiles(ids.numel(), mask_data(mask), tile, [](int64_t, int64_t) {});
    for (size_t worker = 1; worker < sums.size(); ++worker) {
      sums[0].tokens += sums[worker].tokens;
      if (learned) sums[0].positions += sums[worker].positions;
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
  expect_indices(ids, vocabulary, "token ids");
  return Embedding::apply(tables.tokens, tables.positions, ids, kept_mask(mask),
                          make_dropout_mask(dropout, training, ids.numel() * width));
}

}  // namespace lra::ops::cpu
