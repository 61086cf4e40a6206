#include "attention_variants/ops/block_sparse_attention.h"

#include "attention_variants/ops/cpu/operators.h"
#include "attention_variants/ops/cuda/operators.h"
#include "attention_variants/ops/dispatch/recorded.h"
#include "attention_variants/ops/reference/operators.h"

namespace lra::ops {
namespace {

constexpr Implementation<BlockSparseCall> kBlockSparseAttention[] = {
    {cuda::takes, cuda::run, nullptr},
    {cpu::takes, cpu::run, cpu::bytes},
    {nullptr, reference::run, reference::bytes}};

}  // namespace

torch::Tensor block_sparse_attention(Kernels asked, const BlockSparseCall& call) {
  return run_recorded("lra::block_sparse_attention", kBlockSparseAttention, asked,
                      Place::of(call.q), call.shape(), call);
}

int64_t block_sparse_attention_bytes(Kernels asked, const BlockSparseShape& shape) {
  return pick(kBlockSparseAttention, asked, Place::of_bytes(shape.element_size), shape)
      .bytes(shape);
}

}  // namespace lra::ops
