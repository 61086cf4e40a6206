// Parts of the accounts that variants give of their memory (Attention::analytic_bytes).
#pragma once

#include <cstdint>

namespace lra::ops::reference {

/// Bytes that LibTorch's fused attention on CPUs holds beside its output, without gradients: the
/// log-sum-exps of `rows` sequences of `queries` rows (a row is one of a sample's heads), and the
/// tiles that each thread works in. The sizes of tiles are those of LibTorch 2.11
/// (ATen/native/cpu/FlashAttentionKernel.cpp).
int64_t fused_attention_bytes(int64_t rows, int64_t queries, int64_t keys, int64_t width,
                              int64_t element_size);

}  // namespace lra::ops::reference
