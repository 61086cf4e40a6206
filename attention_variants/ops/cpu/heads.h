// How operators that compute one head of one sample at a time see their tensors.
#pragma once

#include <cstdint>
#include <functional>

#include "attention_variants/ops/cpu/kernels/rows/arena.h"
#include "attention_variants/ops/cpu/kernels/rows/matrix.h"
#include "attention_variants/ops/cpu/kernels/rows/padding.h"
#include "attention_variants/ops/cpu/kernels/rows/softmax_columns.h"
#include "attention_variants/ops/cpu/kernels/rows/team.h"
#include "attention_variants/ops/heads.h"
#include "attention_variants/torch.h"

namespace lra::ops::cpu {

/// Head h of sample b of x [B,H,N,d] float32 with unit rows: [N,d].
ConstMatrix head_rows(const torch::Tensor& x, int64_t b, int64_t h);
Matrix mutable_head_rows(const torch::Tensor& x, int64_t b, int64_t h);

/// Copies rows [begin, end) of head h of sample b of x [B,H,N,d] bfloat16 to float32.
void copy_head(const torch::Tensor& x, int64_t b, int64_t h, PositionRange rows, Matrix to);

/// Rows [begin, end) of a head of float32, or of bfloat16, of which they are a copy in the arena.
ConstMatrix read_head(const torch::Tensor& x, int64_t b, int64_t h, PositionRange rows,
                      Arena& arena);
inline ConstMatrix read_head(const torch::Tensor& x, int64_t b, int64_t h, Arena& arena) {
  return read_head(x, b, h, {0, x.size(2)}, arena);
}

/// Whether rows to write hold what stands in the tensor, to be added to, or anything.
enum class OldRows { unread, read };

/// Rows [begin, end) of a head of float32 or bfloat16 to write to: in bfloat16 a copy in the arena,
/// which is rounded and stored when this ends.
class WrittenHead {
 public:
  WrittenHead(const torch::Tensor& x, int64_t b, int64_t h, PositionRange rows, Arena& arena,
              OldRows old = OldRows::unread);
  ~WrittenHead();
  WrittenHead(const WrittenHead&) = delete;
  WrittenHead& operator=(const WrittenHead&) = delete;

  operator Matrix() const { return rows_; }  // NOLINT: as the rows of a tensor are given

 private:
  Matrix rows_;
  Rows<uint16_t> stored_;  // null: rows_ are the tensor's
  int64_t count_, width_;
};

/// Whether loops over heads of x read and write copies.
inline bool is_copied_head(const torch::Tensor& x) { return x.scalar_type() == torch::kBFloat16; }
/// Bytes of the copies of a head of each tensor, or of so many rows of it at most.
int64_t copied_bytes(at::TensorList heads, int64_t rows = INT64_MAX);

/// Whether a sample of a mask [B,N], true where there is a token, has holes; none without a mask
/// (no elements). Contiguous.
InnerPadding holes_of(const torch::Tensor& mask);

/// Of head number `head` of x [heads..,2,N], allocated for the statistics of N softmaxes a head.
SoftmaxStats softmax_stats(const torch::Tensor& x, int64_t head);

/// Calls body(item, arena) as parallel_for_dynamic() does, each thread with an arena of `bytes` of
/// its own. What an item takes is given back after it.
void parallel_for_items(int64_t count, int64_t bytes,
                        const std::function<void(int64_t item, Arena& arena)>& body);

/// Bytes that one head works in: its own, and those of each item of a loop over ranges of its
/// positions.
struct HeadScratch {
  int64_t head = 0, part = 0;
  int64_t beside = 0;  // items that a loop has beside its ranges, at most
};

inline int64_t tile_count(int64_t length, int64_t tile) { return (length + tile - 1) / tile; }

/// Into how many ranges each of `heads` heads of so many tiles of positions is cut: 1 unless there
/// are two threads or more for each head, then one for each thread of LibTorch.
int64_t parts_for(int64_t heads, int64_t tiles);

/// Calls body(head, arena, team) as parallel_for_items() does, or, of more parts than one, head
/// after head with a team of all threads.
void parallel_for_heads(
    int64_t count, int64_t parts, const HeadScratch& bytes,
    const std::function<void(int64_t head, Arena& arena, const Team& team)>& body);

/// Bytes of scratch of so many heads: what parallel_for_heads() allocates, and what products that
/// are not rounded take.
int64_t scratch_bytes(int64_t count, int64_t parts, const HeadScratch& bytes);

}  // namespace lra::ops::cpu
