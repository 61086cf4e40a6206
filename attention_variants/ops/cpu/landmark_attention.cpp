#include "attention_variants/ops/cpu/kernels/heads/landmark_attention.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>

#include "attention_variants/ops/cpu/head_function.h"
#include "attention_variants/ops/cpu/kernels/heads/landmark_matrix.h"
#include "attention_variants/ops/cpu/operators.h"
#include "attention_variants/ops/cpu/parallel.h"

namespace lra::ops::cpu {
namespace {

// Of a forward pass that no backward pass follows.
struct ForwardAlone {
  ForwardAlone(const LandmarkHeadShape& shape, InnerPadding holes, int64_t parts, Arena& arena)
      : saved(shape, arena), scratch(shape, holes, parts, arena) {}
  LandmarkHeadSaved saved;
  LandmarkHeadScratch scratch;
};

LandmarkHeadShape landmark_head_shape(int64_t length, int64_t depth, int64_t kernel,
                                      const LandmarkOptions& options) {
  return {.length = length,
          .landmarks = options.landmarks,
          .depth = depth,
          .iterations = options.iterations,
          .kernel = kernel,
          .over = options.padding == LandmarkPadding::masked ? SegmentMeanOver::tokens
                                                             : SegmentMeanOver::positions};
}

// Of contiguous floats.
std::span<float> elements(const torch::Tensor& x) {
  return {x.mutable_data_ptr<float>(), static_cast<size_t>(x.numel())};
}

// q, k, v, mask [B,N] and conv_weight [H,K]. For a backward pass: what landmark_attention_forward()
// saves, and where heads share the start of their inverses, the norm of each.
class LandmarkOp : public HeadOp {
 public:
  using Options = LandmarkOptions;
  static constexpr size_t kInputs = 5, kHeadInputs = 3, kKept = 5;
  static constexpr bool kReadsOut = false;

  LandmarkOp(const HeadTensors& tensors, const Options& options)
      : HeadOp(tensors),
        shape_(landmark_head_shape(tensors.in[0].size(2), tensors.in[0].size(3),
                                   tensors.in[4].size(1), options)),
        shared_(options.start == InverseStart::global) {
    if (!shared_ || tensors.state.empty()) return;
    share(tensors.state[1]);
    grad_norms_ = torch::empty_like(norms_);
  }

  void allocate(HeadTensors& tensors, bool differentiated) {
    const torch::Tensor& q = tensors.in[0];
    tensors.out = empty_heads_like(q);
    if (shared_) share(norms());
    if (!differentiated) return;
    tensors.state = {torch::empty({batch_, heads_, saved_bytes()}, torch::kByte)};
    if (shared_) tensors.state.push_back(norms_);
  }

  int64_t parts(Pass pass) const {
    return parts_for(items(pass), tile_count(shape_.length, kTile));
  }

  HeadScratch scratch(Pass pass) const {
    const InnerPadding holes = holes_of(tensors_.in[3]);
    if (pass == Pass::backward) {
      return {.head = bytes_of<LandmarkHeadBackwardScratch>(shape_, holes, parts(pass)),
              .part = bytes_of<LandmarkHeadBackwardPartScratch>(shape_),
              .beside = 1};
    }
    return {.head = tensors_.state.empty()
                        ? bytes_of<ForwardAlone>(shape_, holes, parts(pass))
                        : bytes_of<LandmarkHeadScratch>(shape_, holes, parts(pass)),
            .part = bytes_of<LandmarkHeadPartScratch>(shape_),
            .beside = 1};
  }

  void forward(int64_t item, Arena& arena, const Team& team) const {
    if (tensors_.state.empty()) {
      const LandmarkHeadSaved saved(shape_, arena);
      return landmark_attention_forward(shape_, inputs(item, arena),
                                        rows(tensors_.out, item, arena), saved, arena, team);
    }
    Arena kept(saved_memory(item), saved_bytes());
    landmark_attention_forward(shape_, inputs(item, arena), rows(tensors_.out, item, arena),
                               LandmarkHeadSaved(shape_, kept), arena, team);
  }

  // By sample, and then summed.
  void allocate_gradients(torch::autograd::variable_list& gradients) const {
    gradients[4] = torch::empty({batch_, heads_, shape_.kernel}, torch::kFloat);
  }

  void backward(int64_t item, const torch::Tensor& grad_out,
                const torch::autograd::variable_list& gradients, Arena& arena,
                const Team& team) const {
    Arena kept(saved_memory(item), saved_bytes());
    landmark_attention_backward(
        shape_, inputs(item, arena), LandmarkHeadSaved(shape_, kept), head(grad_out, item, arena),
        {.q = rows(gradients[0], item, arena),
         .k = rows(gradients[1], item, arena),
         .v = rows(gradients[2], item, arena),
         .conv_weight = gradients[4].mutable_data_ptr<float>() + item * shape_.kernel,
         .norm = shared_ ? &elements(grad_norms_)[static_cast<size_t>(item)] : nullptr},
        arena, team);
  }

  void finish(torch::autograd::variable_list& gradients) const {
    gradients[4] = gradients[4].sum(0);
    if (shared_) share_backward(gradients);
  }

 private:
  // ‖A‖₁ of every head [B,H].
  torch::Tensor norms() const {
    const torch::Tensor all = torch::empty({batch_, heads_}, torch::kFloat);
    parallel_for_items(batch_ * heads_,
                       bytes_of<LandmarkHeadNormScratch>(shape_) +
                           copied_bytes(at::TensorList(tensors_.in).slice(0, kHeadInputs)),
                       [&](int64_t item, Arena& arena) {
                         elements(all)[static_cast<size_t>(item)] =
                             landmark_norm(shape_, inputs(item, arena), arena);
                       });
    return all;
  }

  void share(const torch::Tensor& norms) {
    norms_ = norms;
    if (norms.numel() > 0) norm_ = std::ranges::max(elements(norms));
  }

  // The shared norm's gradient belongs to the heads whose own it is.
  void share_backward(const torch::autograd::variable_list& gradients) const {
    const std::span<const float> norms = elements(norms_), grads = elements(grad_norms_);
    std::vector<int64_t> owners;
    for (size_t item = 0; item < norms.size(); ++item) {
      if (norms[item] == norm_) owners.push_back(static_cast<int64_t>(item));
    }
    const float each =
        std::accumulate(grads.begin(), grads.end(), 0.0F) / static_cast<float>(owners.size());
    parallel_for_items(
        static_cast<int64_t>(owners.size()),
        bytes_of<LandmarkHeadNormScratch>(shape_) +
            copied_bytes(
                {tensors_.in[0], tensors_.in[1], tensors_.in[2], gradients[0], gradients[1]}),
        [&](int64_t i, Arena& arena) {
          const int64_t item = owners[static_cast<size_t>(i)];
          landmark_norm_backward(shape_, inputs(item, arena), each,
                                 {.q = rows(gradients[0], item, arena, OldRows::read),
                                  .k = rows(gradients[1], item, arena, OldRows::read),
                                  .v = {}},
                                 arena);
        });
  }

  LandmarkHeadInputs inputs(int64_t item, Arena& arena) const {
    return {.q = input(0, item, arena),
            .k = input(1, item, arena),
            .v = input(2, item, arena),
            .mask = mask_row(tensors_.in[3], item),
            .conv_weight = tensors_.in[4].const_data_ptr<float>() + item % heads_ * shape_.kernel,
            .norm = norm_};
  }

  int64_t saved_bytes() const { return bytes_of<LandmarkHeadSaved>(shape_); }
  std::byte* saved_memory(int64_t item) const {
    return static_cast<std::byte*>(tensors_.state[0].mutable_data_ptr()) + item * saved_bytes();
  }

  const LandmarkHeadShape shape_;
  const bool shared_;  // whether all heads of the batch start their inverses from one norm
  std::optional<float> norm_;
  torch::Tensor norms_, grad_norms_;  // [B,H], where it is shared
};

}  // namespace

bool takes(const Place& place, const ops::LandmarkShape& shape) {
  const LandmarkOptions& o = shape.options;
  return is_cpu_stored(place) && shape.length > o.landmarks &&
         o.kind == LandmarkKind::segment_means && o.padding != LandmarkPadding::ignored &&
         !o.exact_inverse;
}

torch::Tensor run(const LandmarkCall& call) {
  return HeadFunction<LandmarkOp>::call(
      {call.q, call.k, call.v, call.mask, call.conv_weight.to(torch::kFloat)}, call.options);
}

int64_t bytes(const ops::LandmarkShape& given) {
  const LandmarkHeadShape shape =
      landmark_head_shape(given.length, given.head_dim, given.conv_kernel, given.options);
  const int64_t items = given.batch * given.heads,
                parts = parts_for(items, tile_count(given.length, kTile));
  const int64_t norms = given.options.start == InverseStart::global ? items : 0;
  return (items * given.length * given.head_dim + norms) * static_cast<int64_t>(sizeof(float)) +
         scratch_bytes(items, parts,
                       {.head = bytes_of<ForwardAlone>(shape, InnerPadding::no, parts),
                        .part = bytes_of<LandmarkHeadPartScratch>(shape),
                        .beside = 1});
}

}  // namespace lra::ops::cpu
