#include <algorithm>
#include <utility>
#include <vector>

#include "attention_variants/ops/autograd_state.h"
#include "attention_variants/ops/cpu/gemm_precision.h"
#include "attention_variants/ops/cpu/heads.h"
#include "attention_variants/ops/cpu/kernels/gemm/gemm.h"
#include "attention_variants/ops/cpu/kernels/rows/padding.h"
#include "attention_variants/ops/cpu/operators.h"
#include "attention_variants/ops/cpu/parallel.h"

namespace lra::ops::cpu {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kPositions = 128;           // a tile: with 256 rows of a table 128 KiB
constexpr int64_t kStride = kPositions + 16;  // of its copy
constexpr int64_t kRowsOfPart = 32;           // of a table, at least, where threads share a head
// Products that make up for the copy of a tile.
constexpr int64_t kProductsOfCopy = 4;

// Of a tile of a head, without padding; of a table's columns there, and their gradient. Rows of a
// table are often some power of two apart, so that a tile of them falls into few sets of a cache.
struct TileScratch {
  TileScratch(int64_t rows, int64_t depth, Pass pass, Arena& arena)
      : x(arena.take(kPositions * depth)),
        columns{arena.take(rows * kStride), kStride},
        grad{pass == Pass::backward ? arena.take(rows * kStride) : nullptr, kStride} {}
  float* x;
  Matrix columns, grad;
};

void copy_rows(ConstMatrix from, int64_t rows, int64_t columns, Matrix to) {
  for (int64_t r = 0; r < rows; ++r) std::copy(from[r], from[r] + columns, to[r]);
}

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
    for (int64_t b = 0; b < batch; ++b) ends.push_back(extent_of(tokens(b, 0), length).length);
  }

  const bool* tokens(int64_t b, int64_t from) const {
    return mask.const_data_ptr<bool>() + b * length + from;
  }
  int64_t heads_of_table() const { return table.dim() == 3 ? 1 : heads; }
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
    return without_padding(head_rows(x, b, h).from(begin), tokens(b, begin), count, depth, copy);
  }
};

class ProjectLength : public torch::autograd::Function<ProjectLength> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x,
                               const torch::Tensor& table, const torch::Tensor& mask) {
    const GemmPrecisionScope scope(save_gemm_precision(*context));
    const Lengths of(x, table, mask);
    const torch::Tensor out = torch::zeros({of.batch, of.heads, of.rows, of.depth}, x.options());
    // Groups of heads, or of blocks of rows of theirs, each of which goes over the table once.
    const int64_t heads = of.batch * of.heads, blocks = parts_for(heads, of.rows / kRowsOfPart),
                  items = heads * blocks, groups = std::min(items, 4 * threads_for(items));
    const bool copies = blocks == 1 && items >= kProductsOfCopy * groups;
    parallel_for_items(
        groups, bytes_of<TileScratch>(of.rows, of.depth, Pass::forward),
        [&](int64_t first, Arena& arena) {
          const TileScratch own(of.rows, of.depth, Pass::forward, arena);
          for (int64_t begin = 0; begin < of.length; begin += kPositions) {
            int64_t copied = -1;  // the head whose columns are
            for (int64_t item = first; item < items; item += groups) {
              const auto [b, h] = of.head(item / blocks);
              const int64_t row = of.rows * (item % blocks) / blocks,
                            end = of.rows * (item % blocks + 1) / blocks,
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
        });
    context->save_for_backward({x, table, mask});
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const GemmPrecisionScope scope(saved_gemm_precision(*context));
    const variable_list kept = saved_tensors(*context);
    const Lengths of(kept[0], kept[1], kept[2]);
    const torch::Tensor grad = gradients[0].contiguous(), grad_x = empty_heads_like(of.x),
                        grad_table = torch::zeros_like(of.table);
    // A tile of positions is one thread's, so that its part of the table's gradient is.
    const int64_t tiles = (of.length + kPositions - 1) / kPositions;
    parallel_for_items(tiles, bytes_of<TileScratch>(of.rows, of.depth, Pass::backward),
                       [&](int64_t tile, Arena& arena) {
                         const TileScratch own(of.rows, of.depth, Pass::backward, arena);
                         for (int64_t h = 0; h < of.heads; h += of.heads_of_table())
                           tile_backward(of, tile * kPositions, h, grad, grad_x, grad_table, own);
                       });
    return {grad_x, grad_table, {}};
  }

 private:
  // Of the positions of a tile and the heads from `first` on that share a table.
  static void tile_backward(const Lengths& of, int64_t begin, int64_t first,
                            const torch::Tensor& grad, const torch::Tensor& grad_x,
                            const torch::Tensor& grad_table, const TileScratch& own) {
    const int64_t most = std::min(kPositions, of.length - begin);
    const Matrix table_grad{grad_table.mutable_data_ptr<float>() + of.table_at(first, begin),
                            of.table.size(-1)};
    const bool copies = of.batch * of.heads_of_table() >= kProductsOfCopy;
    if (copies) {
      copy_rows(of.columns(first, begin), of.rows, most, own.columns);
      zero_rows(own.grad, 0, of.rows, most);
    }
    const ConstMatrix columns = copies ? ConstMatrix(own.columns) : of.columns(first, begin);
    const Matrix columns_grad = copies ? own.grad : table_grad;
    for (int64_t b = 0; b < of.batch; ++b) {
      const int64_t count = std::clamp<int64_t>(of.ends[static_cast<size_t>(b)] - begin, 0, most);
      for (int64_t h = first; h < first + of.heads_of_table(); ++h) {
        const Matrix to = mutable_head_rows(grad_x, b, h).from(begin);
        zero_rows(to, count, most, of.depth);
        if (count == 0) continue;
        const ConstMatrix given = head_rows(grad, b, h);
        gemm_tn(count, of.depth, of.rows, columns, given, to);
        for (int64_t t = 0; t < count; ++t) {
          if (!of.tokens(b, begin)[t]) zero_rows(to, t, t + 1, of.depth);
        }
        gemm_nt(of.rows, count, of.depth, given, of.positions(b, h, begin, count, own.x),
                columns_grad, {.old = 1});
      }
    }
    if (copies) copy_rows(own.grad, of.rows, most, table_grad);
  }
};

}  // namespace

bool takes(const Place& place, const ProjectLengthShape& shape) {
  return is_cpu_float(place) && shape.float_table;
}

torch::Tensor run(const ProjectLengthCall& call) {
  return ProjectLength::apply(with_contiguous_rows(call.x), call.table.contiguous(),
                              call.mask.contiguous());
}

int64_t bytes(const ProjectLengthShape& shape) {
  const int64_t items = shape.batch * shape.heads;
  return items * shape.rows * shape.head_dim * shape.element_size +
         scratch_bytes(items, /*parts=*/1,
                       {.head = bytes_of<TileScratch>(shape.rows, shape.head_dim, Pass::forward)});
}

}  // namespace lra::ops::cpu
