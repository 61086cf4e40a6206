// Memory in which products pack blocks of their operands. The blocks are of one size, so that a
// thread needs the same for products of any size.
#pragma once

#include "attention_variants/ops/cpu/kernels/gemm/gemm.h"
#include "attention_variants/ops/cpu/kernels/rows/arena.h"
#include "attention_variants/ops/cpu/kernels/rows/transpose.h"

namespace lra::ops::cpu {

/// At most so many rows and columns of the result at a time, and terms of a sum, or pairs of them:
/// the terms that a product in registers adds up at a time, and its widest block of columns.
inline constexpr int64_t kGemmRows = 256, kGemmColumns = 64, kGemmDepth = 256;

/// Float32 in registers: bᵀ [depth,columns].
struct TransposedBlock {
  LRA_INLINE explicit TransposedBlock(Arena& arena)
      : right(arena.take(kGemmDepth * transposed_stride(kGemmColumns))) {}
  float* right;
};

/// Bfloat16 by float32: both operands rounded, [rows,depth] and [depth,kColumns]; their product
/// takes a block of its own.
struct RoundedBlocks {
  static constexpr int64_t kColumns = 256;
  LRA_INLINE explicit RoundedBlocks(Arena& arena)
      : left(arena.take(kGemmRows * kGemmDepth)), right(arena.take(kGemmDepth * kColumns)) {}
  float *left, *right;
};

/// Bfloat16 in registers: pairs of a [rows,depth], of b [depth,columns], and of the rows of b that
/// is given transposed [columns,depth].
struct PairBlocks {
  LRA_INLINE explicit PairBlocks(Arena& arena)
      : left(arena.take(kGemmRows * kGemmDepth)),
        right(arena.take(kGemmDepth * transposed_stride(kGemmColumns))),
        rows(arena.take(kGemmColumns * kGemmDepth)) {}
  float *left, *right, *rows;
};

/// Bfloat16 in tiles: pairs of neighbours in a row of a [rows,depth], of b [columns,depth].
struct TileBlocks {
  static constexpr int64_t kColumns = 128;
  LRA_INLINE explicit TileBlocks(Arena& arena)
      : left(arena.take(kGemmRows * kGemmDepth)), right(arena.take(kColumns * kGemmDepth)) {}
  float *left, *right;
};

namespace detail {
extern constinit thread_local Arena* gemm_arena;  // of the products on this thread
}

/// While it lives, products on its thread take their blocks from `arena`. Those on a thread without
/// one allocate them.
class GemmScratch {
 public:
  LRA_INLINE explicit GemmScratch(Arena& arena) : before_(detail::gemm_arena) {
    detail::gemm_arena = &arena;
  }
  LRA_INLINE ~GemmScratch() { detail::gemm_arena = before_; }
  GemmScratch(const GemmScratch&) = delete;
  GemmScratch& operator=(const GemmScratch&) = delete;

 private:
  Arena* before_;
};

/// Bytes that any product takes of it, rounded as `precision` says or less.
int64_t gemm_scratch_bytes(GemmPrecision precision);

}  // namespace lra::ops::cpu
