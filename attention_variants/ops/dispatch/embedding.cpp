#include "attention_variants/ops/embedding.h"

#include "attention_variants/ops/cpu/operators.h"
#include "attention_variants/ops/cuda/operators.h"
#include "attention_variants/ops/dispatch/recorded.h"
#include "attention_variants/ops/reference/operators.h"

namespace lra::ops {
namespace {

constexpr Implementation<EmbeddingCall> kEmbedding[] = {
    {cuda::takes, cuda::run}, {cpu::takes, cpu::run}, {nullptr, reference::run}};

}  // namespace

torch::Tensor embed(Kernels asked, const torch::Tensor& ids, const EmbeddingTables& tables,
                    double dropout, bool training, const torch::Tensor& mask) {
  const EmbeddingShape shape{
      .dropout = dropout, .first = tables.first.defined(), .vocabulary = tables.tokens.size(0)};
  return run_recorded("lra::embed", kEmbedding, asked, Place::of(tables.tokens), shape,
                      {ids, tables, dropout, training, mask});
}

}  // namespace lra::ops
