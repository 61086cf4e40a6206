#include <algorithm>
#include <utility>
#include <vector>

#include "attention_variants/ops/autograd_state.h"
#include "attention_variants/ops/cpu/heads.h"
#include "attention_variants/ops/cpu/kernels/gemm/gemm.h"
#include "attention_variants/ops/cpu/kernels/rows/padding.h"
#include "attention_variants/ops/cpu/operators.h"
#include "attention_variants/ops/cpu/parallel.h"
#include "attention_variants/ops/cpu/rounding.h"
#include "attention_variants/ops/heads.h"

namespace lra::ops::cpu {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kPositions = 128;           // a tile: with 256 rows of a table 128 KiB
constexpr int64_t kStride = kPositions + 16;  // of its copy
constexpr int64_t kRowsOfPart = 32;           // of a table, at least, where threads share a head
constexpr int64_t kProductsOfCopy = 4;        // that make up for the copy of a tile

enum class Copies { no, yes };

// How heads are shared out forward.
struct Shares {
  int64_t blocks;  // of a table's rows: items of a head
  int64_t items, groups;
  Copies copies;  // of a tile of a table: where a group has enough products with it

  Shares(int64_t batch, int64_t heads, int64_t tables, int64_t rows)
      : blocks(parts_for(batch * heads, rows / kRowsOfPart)),
        items(batch * heads * blocks),
        groups(std::min(items, 4 * threads_for(items))),
        copies(blocks == 1 && batch * heads / tables >= kProductsOfCopy * groups ? Copies::yes
                                                                                 : Copies::no) {}
};

// Of a tile of a head, without padding; of a table's columns there, and their gradient. Rows of a
// table are often some power of two apart, so that a tile of them falls into few sets of a cache.
struct TileScratch {
  TileScratch(int64_t rows, int64_t depth, Copies copies, Pass pass, Arena& arena)
      : x(arena.take(kPositions * depth)),
        columns{arena.take(copies == Copies::yes ? rows * kStride : 0), kStride},
        grad{arena.take(copies == Copies::yes && pass == Pass::backward ? rows * kStride : 0),
             kStride} {}
  float* x;
  Matrix columns, grad;
};

// The sizes, and where the tensors lie.
struct Lengths {
  torch::Tensor x, table, mask;
  int64_t batch, heads, length, depth, rows;
  std::vector<int64_t> ends;  // of each sample: the position after its last token

  Lengths(const torch::Tensor& x_given, const torch::Tensor& table_given,
          const torch::Tensor& mask_given)
      : x(x_given),
        table(table_given),
        mask(mask_given),
        batch(x.size(0)),
        heads(x.size(1)),
        length(x.size(2)),
        depth(x.size(3)),
        rows(table.size(-2)) {
    for (int64_t b = 0; b < batch; ++b) ends.push_back(span_of(tokens(b, 0), length).length);
  }

  const bool* tokens(int64_t b, int64_t from) const {
    return mask.const_data_ptr<bool>() + b * length + from;
  }
  int64_t tables() const { return table.dim() == 3 ? heads : 1; }
  // The sample and number of a head: heads that share a table one after the other.
  std::pair<int64_t, int64_t> head(int64_t i) const {
    if (table.dim() == 3) return {i % batch, i / batch};
    return {i / heads, i % heads};
  }
  // Element (0, column) of head h's part of `of`, the table or what is like it.
  int64_t table_at(int64_t h, int64_t column) const {
    return (table.dim() == 3 ? h * rows * table.size(-1) : 0) + column;
  }
  ConstMatrix columns(int64_t h, int64_t from) const {
    return {table.const_data_ptr<float>() + table_at(h, from), table.size(-1)};
  }
  // Rows [begin, begin + count) of a head, those of padding zero.
  ConstMatrix positions(int64_t b, int64_t h, int64_t begin, int64_t count, float* copy) const {
    if (is_copied_head(x)) {
      copy_head(x, b, h, {begin, begin + count}, {copy, depth});
      zero_padding_of(b, begin, count, {copy, depth});
      return {copy, depth};
    }
    return without_padding(head_rows(x, b, h).from(begin), tokens(b, begin), count, depth, copy);
  }

  void zero_padding_of(int64_t b, int64_t begin, int64_t count, Matrix to) const {
    for (int64_t t = 0; t < count; ++t) {
      if (!tokens(b, begin)[t]) zero_rows(to, t, t + 1, depth);
    }
  }
};

class ProjectLength : public torch::autograd::Function<ProjectLength> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x,
                               const torch::Tensor& table, const torch::Tensor& mask) {
    const GemmPrecisionScope scope(save_gemm_precision(*context));
    const Lengths of(x, table, mask);
    const torch::Tensor out = torch::zeros({of.batch, of.heads, of.rows, of.depth}, torch::kFloat);
    // Groups of heads, or of blocks of rows of theirs, each of which goes over the table once.
    const Shares shares(of.batch, of.heads, of.tables(), of.rows);
    parallel_for_items(
        shares.groups, bytes_of<TileScratch>(of.rows, of.depth, shares.copies, Pass::forward),
        [&](int64_t group, Arena& arena) {
          const TileScratch own(of.rows, of.depth, shares.copies, Pass::forward, arena);
          for (int64_t begin = 0; begin < of.length; begin += kPositions)
            tile_forward(of, shares, group, begin, out, own);
        });
    context->save_for_backward({x, table, mask});
    return out.to(x.scalar_type());
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const GemmPrecisionScope scope(saved_gemm_precision(*context));
    const variable_list kept = saved_tensors(*context);
    const Lengths of(kept[0], kept[1], kept[2]);
    const torch::Tensor grad = dense(gradients[0].to(torch::kFloat)),
                        grad_x = empty_heads_like(of.x), grad_table = torch::zeros_like(of.table);
    // A tile of positions is one thread's, so that its part of the table's gradient is.
    const Copies copies =
        of.batch * of.heads / of.tables() >= kProductsOfCopy ? Copies::yes : Copies::no;
    const int64_t heads = of.heads / of.tables();
    parallel_for_items(tile_count(of.length, kPositions),
                       bytes_of<TileScratch>(of.rows, of.depth, copies, Pass::backward) +
                           copied_bytes({grad_x}, kPositions),
                       [&](int64_t tile, Arena& arena) {
                         const TileScratch own(of.rows, of.depth, copies, Pass::backward, arena);
                         for (int64_t h = 0; h < of.heads; h += heads)
                           tile_backward(of, tile * kPositions, h, copies, grad, grad_x, grad_table,
                                         own, arena);
                       });
    return {grad_x, grad_table, {}};
  }

 private:
  // Adds the products of a tile of positions to the results of a group.
  static void tile_forward(const Lengths& of, const Shares& shares, int64_t group, int64_t begin,
                           const torch::Tensor& out, const TileScratch& own) {
    const bool copies = shares.copies == Copies::yes;
    int64_t copied = -1;  // the head whose columns are
    for (int64_t item = group; item < shares.items; item += shares.groups) {
      const auto [b, h] = of.head(item / shares.blocks);
      const int64_t block = item % shares.blocks, row = of.rows * block / shares.blocks,
                    end = of.rows * (block + 1) / shares.blocks,
                    count = std::min(kPositions, of.ends[static_cast<size_t>(b)] - begin);
      if (count <= 0) continue;
      if (copies && (copied < 0 || of.table_at(h, 0) != of.table_at(copied, 0))) {
        copy_rows(of.columns(h, begin), of.rows, std::min(kPositions, of.length - begin),
                  own.columns);
        copied = h;
      }
      gemm(end - row, of.depth, count,
           copies ? ConstMatrix(own.columns) : of.columns(h, begin).from(row),
           of.positions(b, h, begin, count, own.x), mutable_head_rows(out, b, h).from(row),
           {.old = 1});
    }
  }

  // Of the positions of a tile and the heads from `first` on that share a table.
  static void tile_backward(const Lengths& of, int64_t begin, int64_t first, Copies copies,
                            const torch::Tensor& grad, const torch::Tensor& grad_x,
                            const torch::Tensor& grad_table, const TileScratch& own, Arena& arena) {
    const int64_t most = std::min(kPositions, of.length - begin),
                  last = first + of.heads / of.tables();
    const Matrix table_grad{grad_table.mutable_data_ptr<float>() + of.table_at(first, begin),
                            of.table.size(-1)};
    const bool copied = copies == Copies::yes;
    if (copied) {
      copy_rows(of.columns(first, begin), of.rows, most, own.columns);
      zero_rows(own.grad, 0, of.rows, most);
    }
    const ConstMatrix columns = copied ? ConstMatrix(own.columns) : of.columns(first, begin);
    const Matrix columns_grad = copied ? own.grad : table_grad;
    for (int64_t b = 0; b < of.batch; ++b) {
      const int64_t count = std::clamp<int64_t>(of.ends[static_cast<size_t>(b)] - begin, 0, most);
      for (int64_t h = first; h < last; ++h) {
        const Arena::Frame frame(arena);
        const WrittenHead written(grad_x, b, h, {begin, begin + most}, arena);
        const Matrix to = written;
        zero_rows(to, count, most, of.depth);
        if (count == 0) continue;
        const ConstMatrix given = head_rows(grad, b, h);
        gemm_tn(count, of.depth, of.rows, columns, given, to);
        of.zero_padding_of(b, begin, count, to);
        gemm_nt(of.rows, count, of.depth, given, of.positions(b, h, begin, count, own.x),
                columns_grad, {.old = 1});
      }
    }
    if (copied) copy_rows(own.grad, of.rows, most, table_grad);
  }
};

}  // namespace

bool takes(const Place& place, const ProjectLengthShape& shape) {
  return is_cpu_stored(place) && shape.float_table;
}

torch::Tensor run(const ProjectLengthCall& call) {
  return ProjectLength::apply(with_contiguous_rows(call.x), dense(call.table), dense(call.mask));
}

int64_t bytes(const ProjectLengthShape& shape) {
  const Shares shares(shape.batch, shape.heads, shape.tables, shape.rows);
  return shape.batch * shape.heads * shape.rows * shape.head_dim * shape.element_size +
         scratch_bytes(shares.groups, /*parts=*/1,
                       {.head = bytes_of<TileScratch>(shape.rows, shape.head_dim, shares.copies,
                                                      Pass::forward)});
}

}  // namespace lra::ops::cpu
