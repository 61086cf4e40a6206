#include "attention_variants/ops/cpu/kernels/heads/landmark_attention.h"

#include "attention_variants/ops/cpu/head_function.h"
#include "attention_variants/ops/cpu/operators.h"
#include "attention_variants/ops/cpu/parallel.h"

namespace lra::ops::cpu {
namespace {

// Of a forward pass that no backward pass follows.
struct ForwardAlone {
  ForwardAlone(const NystromShape& shape, InnerPadding holes, int64_t parts, Arena& arena)
      : saved(shape, arena), scratch(shape, holes, parts, arena) {}
  NystromSaved saved;
  NystromScratch scratch;
};

// q, k, v, mask [B,N] and conv_weight [H,K]; what nystrom_forward() saves, where a backward pass
// follows.
class LandmarkOp : public HeadOp {
 public:
  using Options = LandmarkOptions;
  static constexpr size_t kInputs = 5, kHeadInputs = 3, kKept = 5;
  static constexpr bool kReadsOut = false;

  LandmarkOp(const HeadTensors& tensors, const Options& options)
      : HeadOp(tensors),
        shape_{.length = tensors.in[0].size(2),
               .landmarks = options.landmarks,
               .depth = tensors.in[0].size(3),
               .iterations = options.iterations,
               .kernel = tensors.in[4].size(1)} {}

  void allocate(HeadTensors& tensors, bool differentiated) const {
    const torch::Tensor& q = tensors.in[0];
    tensors.out = empty_heads_like(q);
    if (differentiated)
      tensors.state = {torch::empty({batch_, heads_, saved_bytes()}, torch::kByte)};
  }

  int64_t parts(Pass pass) const {
    return parts_for(items(pass), tile_count(shape_.length, kTile));
  }

  HeadScratch scratch(Pass pass) const {
    const InnerPadding holes = holes_of(tensors_.in[3]);
    if (pass == Pass::backward) {
      return {.head = bytes_of<NystromBackwardScratch>(shape_, holes, parts(pass)),
              .part = bytes_of<NystromBackwardPartScratch>(shape_),
              .beside = 1};
    }
    return {.head = tensors_.state.empty() ? bytes_of<ForwardAlone>(shape_, holes, parts(pass))
                                           : bytes_of<NystromScratch>(shape_, holes, parts(pass)),
            .part = bytes_of<NystromPartScratch>(shape_),
            .beside = 1};
  }

  void forward(int64_t item, Arena& arena, const Team& team) const {
    if (tensors_.state.empty()) {
      const NystromSaved saved(shape_, arena);
      return nystrom_forward(shape_, inputs(item), rows(tensors_.out, item), saved, arena, team);
    }
    Arena kept(saved_memory(item), saved_bytes());
    nystrom_forward(shape_, inputs(item), rows(tensors_.out, item), NystromSaved(shape_, kept),
                    arena, team);
  }

  // By sample, and then summed.
  void allocate_gradients(torch::autograd::variable_list& gradients) const {
    gradients[4] = torch::empty({batch_, heads_, shape_.kernel}, tensors_.in[0].options());
  }

  void backward(int64_t item, const torch::Tensor& grad_out,
                const torch::autograd::variable_list& gradients, Arena& arena,
                const Team& team) const {
    Arena kept(saved_memory(item), saved_bytes());
    nystrom_backward(shape_, inputs(item), NystromSaved(shape_, kept), head(grad_out, item),
                     {.q = rows(gradients[0], item),
                      .k = rows(gradients[1], item),
                      .v = rows(gradients[2], item),
                      .conv_weight = gradients[4].mutable_data_ptr<float>() + item * shape_.kernel},
                     arena, team);
  }

  void finish(torch::autograd::variable_list& gradients) const {
    gradients[4] = gradients[4].sum(0);
  }

 private:
  NystromInputs inputs(int64_t item) const {
    return {.q = input(0, item),
            .k = input(1, item),
            .v = input(2, item),
            .mask = mask_row(tensors_.in[3], item),
            .conv_weight = tensors_.in[4].const_data_ptr<float>() + item % heads_ * shape_.kernel};
  }

  int64_t saved_bytes() const { return bytes_of<NystromSaved>(shape_); }
  std::byte* saved_memory(int64_t item) const {
    return static_cast<std::byte*>(tensors_.state[0].mutable_data_ptr()) + item * saved_bytes();
  }

  const NystromShape shape_;
};

}  // namespace

bool takes(const Place& place, const ops::LandmarkShape& shape) {
  const LandmarkOptions& o = shape.options;
  return is_cpu_float(place) && shape.length > o.landmarks &&
         o.kind == LandmarkKind::segment_means && o.padding == LandmarkPadding::masked &&
         o.start == InverseStart::per_matrix && !o.exact_inverse;
}

torch::Tensor run(const LandmarkCall& call) {
  return HeadFunction<LandmarkOp>::call({call.q, call.k, call.v, call.mask, call.conv_weight},
                                        call.options);
}

int64_t bytes(const ops::LandmarkShape& given) {
  const NystromShape shape{.length = given.length,
                           .landmarks = given.options.landmarks,
                           .depth = given.head_dim,
                           .iterations = given.options.iterations,
                           .kernel = given.conv_kernel};
  const int64_t items = given.batch * given.heads,
                parts = parts_for(items, tile_count(given.length, kTile));
  return items * given.length * given.head_dim * static_cast<int64_t>(sizeof(float)) +
         scratch_bytes(items, parts,
                       {.head = bytes_of<ForwardAlone>(shape, InnerPadding::no, parts),
                        .part = bytes_of<NystromPartScratch>(shape),
                        .beside = 1});
}

}  // namespace lra::ops::cpu
