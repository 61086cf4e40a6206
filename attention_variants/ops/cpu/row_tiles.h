// How operators that compute a tile of rows at a time share them out.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "attention_variants/ops/cpu/kernels/rows/arena.h"
#include "attention_variants/ops/cpu/kernels/rows/padding.h"
#include "attention_variants/ops/cpu/kernels/rows/row_ops.h"
#include "attention_variants/ops/heads.h"
#include "attention_variants/torch.h"

namespace lra::ops::cpu {

/// Rows a tile: with 128 columns 128 KiB, which stay in a core's cache from one step to the next.
inline constexpr int64_t kRowTile = 256;

/// Workers among which parallel_for_row_tiles() divides the rows: one a thread of LibTorch, at most
/// one a tile.
int64_t row_tile_workers(int64_t rows);

/// For every tile of [0, rows): calls body(worker, begin, rows) of its rows up to the last where
/// `mask` [rows] (null: all true) is true, and blank(begin, rows) of those behind it. The tiles of
/// a worker run one after the other on one thread, are neighbours with about as many tokens as
/// those of any other, and are the same for the same mask and number of threads.
void parallel_for_row_tiles(
    int64_t rows, const bool* mask,
    const std::function<void(int64_t worker, int64_t begin, int64_t rows)>& body,
    const std::function<void(int64_t begin, int64_t rows)>& blank);

/// A blank() that writes zeros, to [rows,width].
inline auto zero_skipped_rows(float* to, int64_t width) {
  return [=](int64_t begin, int64_t rows) { blank_rows({to, width}, begin, begin + rows, width); };
}

/// The rows of a contiguous tensor, of which loops read and write tiles in float32: those of
/// float32 where they lie, those of bfloat16 in memory between, of kRowTile rows.
class StoredRows {
 public:
  explicit StoredRows(const torch::Tensor& x)
      : x_(x), width_(x.size(-1)), rounded_(x.scalar_type() == torch::kBFloat16) {}

  int64_t width() const { return width_; }
  /// Floats of that memory, which read() and to_write() are given.
  int64_t between() const { return rounded_ ? kRowTile * width_ : 0; }

  const float* read(int64_t begin, int64_t rows, float* between) const;
  /// Where rows from `begin` on are written, and what stores them after it.
  float* to_write(int64_t begin, float* between) const;
  void store(int64_t begin, int64_t rows, const float* written) const;

  /// Zeros.
  void blank(int64_t begin, int64_t rows) const;

 private:
  torch::Tensor x_;
  int64_t width_;
  bool rounded_;
};

/// A blank() of them.
inline auto zero_skipped_rows(const StoredRows& to) {
  return [to](int64_t begin, int64_t rows) { to.blank(begin, rows); };
}

using StoredList = std::vector<StoredRows>;

/// The memory of one worker between tiles of some rows and the loops: of each its own.
class TilesBetween {
 public:
  TilesBetween(const StoredList& all, Arena& arena) {
    for (const StoredRows& one : all) tiles_.push_back(arena.take(one.between()));
  }
  float* operator[](size_t i) const { return tiles_[i]; }

 private:
  std::vector<float*> tiles_;
};

/// Of a mask that may be undefined (all true): what autograd can keep, and the mask that it is of.
inline torch::Tensor kept_mask(const torch::Tensor& mask) {
  return mask.defined() ? dense(mask) : torch::empty({0}, torch::kBool);
}
inline const bool* mask_data(const torch::Tensor& kept) {
  return kept.numel() == 0 ? nullptr : kept.const_data_ptr<bool>();
}

/// `count` floats that are zero, unless the arena counts: for sums.
inline float* take_zeros(Arena& arena, int64_t count) {
  float* taken = arena.take(count);
  if (taken != nullptr) std::fill(taken, taken + count, 0.0F);
  return taken;
}

/// What each worker works in and adds up: Parts, made of `of` and an Arena, over one tensor.
template <class Part>
class RowTileWorkers {
 public:
  template <class... Of>
  explicit RowTileWorkers(int64_t workers, const Of&... of) {
    const int64_t bytes = bytes_of<Part>(of...);  // whole cache lines
    memory_ = torch::empty({workers * bytes}, torch::kByte);
    auto* begin = reinterpret_cast<std::byte*>(memory_.mutable_data_ptr<uint8_t>());
    for (int64_t worker = 0; worker < workers; ++worker)
      workers_.emplace_back(begin + worker * bytes, bytes, of...);
  }

  Part& operator[](int64_t worker) { return workers_[static_cast<size_t>(worker)].part; }

  /// The sums of all, floats that `member` finds in a Part, added up in the order of the workers,
  /// as a contiguous tensor like `like`.
  template <class Member>
  torch::Tensor sum(Member member, const torch::Tensor& like) const {
    torch::Tensor total = torch::empty_like(like, at::MemoryFormat::Contiguous);
    if (workers_.empty()) return total.zero_();
    float* to = total.mutable_data_ptr<float>();
    const float* first = std::invoke(member, workers_.front().part);
    std::copy(first, first + total.numel(), to);
    for (auto worker = workers_.begin() + 1; worker != workers_.end(); ++worker)
      add(to, std::invoke(member, worker->part), total.numel(), to);
    return total;
  }

 private:
  struct Worker {
    template <class... Of>
    Worker(std::byte* begin, int64_t bytes, const Of&... of)
        : arena(begin, bytes), part(of..., arena) {}
    Arena arena;
    Part part;
  };

  torch::Tensor memory_;
  std::deque<Worker> workers_;  // arenas stay where they are
};

}  // namespace lra::ops::cpu
