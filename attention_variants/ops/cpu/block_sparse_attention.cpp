#include "attention_variants/ops/cpu/kernels/heads/block_sparse_attention.h"

#include <algorithm>
#include <cmath>

#include "attention_variants/ops/cpu/head_function.h"
#include "attention_variants/ops/cpu/operators.h"
#include "attention_variants/ops/cpu/parallel.h"

namespace lra::ops::cpu {
namespace {

BlockSparseHeadShape shape_of(int64_t length, int64_t head_dim) {
  return {.length = length,
          .depth = head_dim,
          .values = head_dim,
          .scale = 1 / std::sqrt(static_cast<float>(head_dim))};
}

// Of the pattern that takes most.
HeadScratch scratch_of(const BlockSparseHeadShape& shape, const Patterns& patterns, Pass pass) {
  HeadScratch most;
  for (const SparsityPattern& pattern : patterns) {
    const PatternSizes sizes(pattern);
    most.part = std::max(most.part, pass == Pass::forward
                                        ? bytes_of<BlockSparseHeadScratch>(shape, sizes)
                                        : bytes_of<BlockSparseHeadBackwardScratch>(shape, sizes));
    if (pass == Pass::backward)
      most.head = std::max(most.head, bytes_of<BlockSparseHeadTurns>(pattern));
  }
  return most;
}

int64_t parts_of(int64_t heads, const Patterns& patterns) {
  size_t most = 0;
  for (const SparsityPattern& pattern : patterns) most = std::max(most, pattern.tiles.size());
  return parts_for(heads, static_cast<int64_t>(most));
}

// q, k, v and mask [B,N]; the softmaxes' statistics [B,H,2,N].
class BlockSparseOp : public HeadOp {
 public:
  struct Options {
    Patterns patterns;
  };
  static constexpr size_t kInputs = 4, kHeadInputs = 3, kKept = 4;
  static constexpr bool kReadsOut = true;

  BlockSparseOp(const HeadTensors& tensors, const Options& options)
      : HeadOp(tensors),
        shape_(shape_of(tensors.in[0].size(2), tensors.in[0].size(3))),
        patterns_(options.patterns) {}

  void allocate(HeadTensors& tensors, bool) const {
    tensors.out = empty_heads_like(tensors.in[0]);
    tensors.state = {torch::zeros({batch_, heads_, 2, shape_.length}, torch::kFloat)};
  }

  int64_t parts(Pass pass) const { return parts_of(items(pass), patterns_); }
  HeadScratch scratch(Pass pass) const { return scratch_of(shape_, patterns_, pass); }

  void forward(int64_t item, Arena& arena, const Team& team) const {
    block_sparse_forward(shape_, pattern(item), inputs(item, arena),
                         rows(tensors_.out, item, arena), stats(item), team);
  }

  void backward(int64_t item, const torch::Tensor& grad_out,
                const torch::autograd::variable_list& gradients, Arena& arena,
                const Team& team) const {
    block_sparse_backward(shape_, pattern(item), inputs(item, arena),
                          head(tensors_.out, item, arena), stats(item), head(grad_out, item, arena),
                          {.q = rows(gradients[0], item, arena),
                           .k = rows(gradients[1], item, arena),
                           .v = rows(gradients[2], item, arena)},
                          arena, team);
  }

 private:
  BlockSparseHeadInputs inputs(int64_t item, Arena& arena) const {
    return {.q = input(0, item, arena),
            .k = input(1, item, arena),
            .v = input(2, item, arena),
            .mask = mask_row(tensors_.in[3], item)};
  }

  const SparsityPattern& pattern(int64_t item) const {
    return patterns_[patterns_.size() == 1 ? 0 : static_cast<size_t>(item % heads_)];
  }

  SoftmaxStats stats(int64_t item) const { return softmax_stats(tensors_.state[0], item); }

  const BlockSparseHeadShape shape_;
  const Patterns& patterns_;
};

}  // namespace

bool takes(const Place& place, const BlockSparseShape&) { return is_cpu_stored(place); }

torch::Tensor run(const BlockSparseCall& call) {
  return HeadFunction<BlockSparseOp>::call({call.q, call.k, call.v, call.mask},
                                           {.patterns = call.patterns()});
}

int64_t bytes(const BlockSparseShape& given) {
  const int64_t items = given.batch * given.heads;
  const BlockSparseHeadShape shape = shape_of(given.length, given.head_dim);
  const Patterns patterns = given.patterns();
  return items * given.length * (given.head_dim + 2) * static_cast<int64_t>(sizeof(float)) +
         scratch_bytes(items, parts_of(items, patterns),
                       scratch_of(shape, patterns, Pass::forward));
}

}  // namespace lra::ops::cpu
