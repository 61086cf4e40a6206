#include "attention_variants/ops/cpu/heads.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <deque>

#include "attention_variants/ops/cpu/kernels/gemm/gemm_scratch.h"
#include "attention_variants/ops/cpu/kernels/rows/row_ops.h"
#include "attention_variants/ops/cpu/parallel.h"
#include "attention_variants/ops/cpu/rounding.h"

namespace lra::ops::cpu {

namespace {

template <class T>
Rows<T> head_of(T* data, const torch::Tensor& x, int64_t b, int64_t h, int64_t row = 0) {
  return {data + b * x.stride(0) + h * x.stride(1) + row * x.stride(2), x.stride(2)};
}

}  // namespace

ConstMatrix head_rows(const torch::Tensor& x, int64_t b, int64_t h) {
  return head_of(x.const_data_ptr<float>(), x, b, h);
}

Matrix mutable_head_rows(const torch::Tensor& x, int64_t b, int64_t h) {
  return head_of(x.mutable_data_ptr<float>(), x, b, h);
}

void copy_head(const torch::Tensor& x, int64_t b, int64_t h, PositionRange rows, Matrix to) {
  from_bfloat16(head_of(bfloat16_data(x), x, b, h, rows.begin), rows.length(), x.size(3), to);
}

ConstMatrix read_head(const torch::Tensor& x, int64_t b, int64_t h, PositionRange rows,
                      Arena& arena) {
  if (!is_copied_head(x)) return head_of(x.const_data_ptr<float>(), x, b, h, rows.begin);
  const Matrix copy = arena.matrix(rows.length(), x.size(3));
  copy_head(x, b, h, rows, copy);
  return copy;
}

WrittenHead::WrittenHead(const torch::Tensor& x, int64_t b, int64_t h, PositionRange rows,
                         Arena& arena, OldRows old)
    : count_(rows.length()), width_(x.size(3)) {
  if (!is_copied_head(x)) {
    rows_ = head_of(x.mutable_data_ptr<float>(), x, b, h, rows.begin);
    return;
  }
  rows_ = arena.matrix(count_, width_);
  stored_ = head_of(mutable_bfloat16_data(x), x, b, h, rows.begin);
  if (old == OldRows::read) from_bfloat16(stored_, count_, width_, rows_);
}

WrittenHead::~WrittenHead() {
  if (stored_.data != nullptr) to_bfloat16(rows_, count_, width_, stored_);
}

int64_t copied_bytes(at::TensorList heads, int64_t rows) {
  Arena counting;
  for (const torch::Tensor& x : heads) {
    if (is_copied_head(x)) counting.matrix(std::min(rows, x.size(2)), x.size(3));
  }
  return counting.peak();
}

InnerPadding holes_of(const torch::Tensor& mask) {
  for (int64_t b = 0; mask.numel() > 0 && b < mask.size(0); ++b) {
    const bool *row = mask.const_data_ptr<bool>() + b * mask.size(1), *end = row + mask.size(1);
    if (std::find(std::find(row, end, false), end, true) != end) return InnerPadding::yes;
  }
  return InnerPadding::no;
}

SoftmaxStats softmax_stats(const torch::Tensor& x, int64_t head) {
  const int64_t length = x.size(-1);
  float* const max = x.mutable_data_ptr<float>() + 2 * head * length;
  return {.max = max, .inverse_sum = max + length};
}

namespace {

// Arenas of so many bytes each, in one tensor.
class Arenas {
 public:
  Arenas(int64_t count, int64_t bytes) : memory_(torch::empty({count, bytes}, torch::kByte)) {
    auto* const first = reinterpret_cast<std::byte*>(memory_.data_ptr());
    for (int64_t i = 0; i < count; ++i) arenas_.emplace_back(first + i * bytes, bytes);
  }
  Arena& operator[](int64_t i) { return arenas_[static_cast<size_t>(i)]; }

 private:
  torch::Tensor memory_;
  std::deque<Arena> arenas_;  // does not move them
};

// Threads of a team: one for each item of its longest loop, where there are so many.
int64_t team_threads(int64_t parts, const HeadScratch& bytes) {
  return threads_for(parts + bytes.beside);
}

// Of a team, each with an arena.
struct TeamThreads {
  int64_t count;
  Arenas arenas;

  TeamThreads(int64_t threads, int64_t bytes) : count(threads), arenas(threads, bytes) {}

  void run(int64_t items, Team::Call call, const void* body) {
    std::atomic<int64_t> next = 0;
    parallel_for_dynamic(std::min(items, count), [&](int64_t worker, int64_t) {
      for (int64_t item = next++; item < items; item = next++) {
        const Arena::Frame frame(arenas[worker]);
        call(body, item, arenas[worker]);
      }
    });
  }
};

}  // namespace

void parallel_for_items(int64_t count, int64_t bytes,
                        const std::function<void(int64_t item, Arena& arena)>& body) {
  Arenas arenas(threads_for(count), bytes);
  parallel_for_dynamic(count, [&](int64_t item, int64_t thread) {
    Arena& arena = arenas[thread];
    const Arena::Frame frame(arena);
    body(item, arena);
  });
}

int64_t parts_for(int64_t heads, int64_t tiles) {
  const int64_t threads = at::get_num_threads();
  return 2 * heads <= threads ? std::clamp<int64_t>(tiles, 1, threads) : 1;
}

void parallel_for_heads(
    int64_t count, int64_t parts, const HeadScratch& bytes,
    const std::function<void(int64_t head, Arena& arena, const Team& team)>& body) {
  if (parts == 1) {
    return parallel_for_items(count, bytes.head + bytes.part,
                              [&](int64_t item, Arena& arena) { body(item, arena, Team(arena)); });
  }
  Arenas of_head(1, bytes.head);
  TeamThreads threads(team_threads(parts, bytes), bytes.part);
  const Team team(
      parts,
      [](void* of, int64_t items, Team::Call call, const void* data) {
        static_cast<TeamThreads*>(of)->run(items, call, data);
      },
      &threads);
  for (int64_t head = 0; head < count; ++head) {
    // For its products: in a loop of one item, as those of a team's items are.
    parallel_for_dynamic(1, [&](int64_t, int64_t) {
      const Arena::Frame frame(of_head[0]);
      body(head, of_head[0], team);
    });
  }
}

int64_t scratch_bytes(int64_t count, int64_t parts, const HeadScratch& bytes) {
  const int64_t of_products = gemm_scratch_bytes(GemmPrecision::float32);
  if (parts == 1) return threads_for(count) * (bytes.head + bytes.part + of_products);
  return bytes.head + of_products + team_threads(parts, bytes) * (bytes.part + of_products);
}

}  // namespace lra::ops::cpu
