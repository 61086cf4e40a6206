#include "attention_variants/ops/cpu/kernels/heads/lsh_attention.h"

#include <algorithm>

#include "attention_variants/ops/cpu/head_function.h"
#include "attention_variants/ops/cpu/operators.h"
#include "attention_variants/ops/cpu/parallel.h"

namespace lra::ops::cpu {
namespace {

LshShape shape_of(int64_t length, int64_t head_dim, const LshOptions& options) {
  return {.length = length,
          .depth = head_dim,
          .values = head_dim,
          .rounds = options.rounds,
          .chunk = options.chunk,
          .before = options.before,
          .after = options.after,
          .key_scale = options.key_scale};
}

// First tokens are sorted, then they attend.
HeadScratch forward_scratch(const LshShape& shape, const LshBuckets& buckets) {
  return {.part = std::max(bytes_of<LshSortScratch>(shape, buckets), bytes_of<LshScratch>(shape))};
}

int64_t parts_of(int64_t heads, const LshShape& shape) { return parts_for(heads, shape.chunks()); }

// x, v, mask [B,N] and the rotations, which the backward pass does not need; the rounds' order
// [B,H,R·places] int32, and of each softmax its largest score and its inverse sum [B,H,N].
class LshOp : public HeadOp {
 public:
  using Options = LshOptions;
  static constexpr size_t kInputs = 4, kHeadInputs = 2, kKept = 3;
  static constexpr bool kReadsOut = true;

  LshOp(const HeadTensors& tensors, const Options& options)
      : HeadOp(tensors),
        shape_(shape_of(tensors.in[0].size(2), tensors.in[0].size(3), options)),
        options_(options),
        places_(shape_.rounds * shape_.places()) {}

  void allocate(HeadTensors& tensors, bool) const {
    const torch::Tensor& x = tensors.in[0];
    tensors.out = empty_heads_like(x);
    tensors.state = {torch::empty({batch_, heads_, places_}, x.options().dtype(torch::kInt32)),
                     torch::empty({batch_, heads_, shape_.length}, torch::kFloat),
                     torch::empty({batch_, heads_, shape_.length}, torch::kFloat)};
  }

  HeadScratch scratch(Pass pass) const {
    if (pass == Pass::forward) return forward_scratch(shape_, buckets(0));
    return {.head = bytes_of<LshEdges>(shape_, parts(pass)),
            .part = bytes_of<LshBackwardScratch>(shape_)};
  }
  int64_t parts(Pass pass) const { return parts_of(items(pass), shape_); }

  void forward(int64_t item, Arena& arena, const Team& team) const {
    const LshInputs in = inputs(item, arena);
    lsh_sort(shape_, in, buckets(item % heads_), order(item), team);
    lsh_forward(shape_, in, order(item), rows(tensors_.out, item, arena), row(1, item),
                row(2, item), team);
  }

  void backward(int64_t item, const torch::Tensor& grad_out,
                const torch::autograd::variable_list& gradients, Arena& arena,
                const Team& team) const {
    lsh_backward(shape_, inputs(item, arena), order(item), head(tensors_.out, item, arena),
                 row(1, item), row(2, item), head(grad_out, item, arena),
                 rows(gradients[0], item, arena), rows(gradients[1], item, arena), arena, team);
  }

 private:
  LshInputs inputs(int64_t item, Arena& arena) const {
    return {.x = input(0, item, arena),
            .v = input(1, item, arena),
            .mask = mask_row(tensors_.in[2], item)};
  }

  LshBuckets buckets(int64_t head) const {
    const torch::Tensor& rotations = tensors_.in[3];
    return {.factors = options_.bucket_factors,
            .rotations = rotations.const_data_ptr<float>() + head * (rotations.numel() / heads_)};
  }

  int32_t* order(int64_t item) const {
    return tensors_.state[0].mutable_data_ptr<int32_t>() + item * places_;
  }
  float* row(size_t i, int64_t item) const {
    return tensors_.state[i].mutable_data_ptr<float>() + item * shape_.length;
  }

  const LshShape shape_;
  const LshOptions& options_;
  const int64_t places_;
};

}  // namespace

bool takes(const Place& place, const ops::LshShape&) { return is_cpu_stored(place); }

torch::Tensor run(const LshCall& call) {
  return HeadFunction<LshOp>::call({call.x, call.v, call.mask, call.rotations.to(torch::kFloat)},
                                   call.options);
}

int64_t bytes(const ops::LshShape& given) {
  const LshShape shape = shape_of(given.length, given.head_dim, given.options);
  const int64_t items = given.batch * given.heads;
  const LshBuckets buckets{.factors = given.options.bucket_factors};
  // The result, the rounds' order, and of each softmax its largest score and its sum.
  return items * (given.length * (given.head_dim + 2) + shape.rounds * shape.places()) *
             static_cast<int64_t>(sizeof(float)) +
         scratch_bytes(items, parts_of(items, shape), forward_scratch(shape, buckets));
}

}  // namespace lra::ops::cpu
