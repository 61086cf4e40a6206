#include "attention_variants/ops/cpu/kernels/heads/linear_attention.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

#include "attention_variants/ops/cpu/head_function.h"
#include "attention_variants/ops/cpu/kernels/gemm/gemm_bf16.h"
#include "attention_variants/ops/cpu/operators.h"
#include "attention_variants/ops/cpu/parallel.h"

namespace lra::ops::cpu {
namespace {

// q, k, v, mask [B,N] and the table; sums [B,H,f(d+1)], largest [B,H], where [B,H,2] int64,
// denominators [B,H,N] and, where all heads share c, whose it is, its position and feature [3]
// int64.
class LinearAttentionOp : public HeadOp {
 public:
  using Options = LinearAttentionOptions;
  static constexpr size_t kInputs = 5, kHeadInputs = 3, kKept = 5;
  static constexpr bool kReadsOut = true;

  LinearAttentionOp(const HeadTensors& tensors, const Options& options)
      : HeadOp(tensors),
        shape_(shape_of(tensors, options)),
        shared_(options.map == FeatureMap::softmax && options.key_max == KeyMax::batch) {
    if (shared_ && !tensors.state.empty()) grad_largest_ = torch::empty_like(tensors.state[1]);
  }

  void allocate(HeadTensors& tensors, bool) {
    const torch::Tensor& q = tensors.in[0];
    tensors.out = empty_heads_like(q);
    tensors.state = {torch::empty({batch_, heads_, shape_.sums()}, torch::kFloat),
                     torch::empty({batch_, heads_}, torch::kFloat),
                     torch::empty({batch_, heads_, 2}, q.options().dtype(torch::kInt64)),
                     torch::empty({batch_, heads_, shape_.length}, torch::kFloat)};
    if (shared_) tensors.state.push_back(share());
  }

  int64_t parts(Pass pass) const {
    return parts_for(items(pass), tile_count(shape_.length, kFeatureTile));
  }

  HeadScratch scratch(Pass pass) const {
    if (pass == Pass::backward) {
      return {.head = bytes_of<LinearHeadBackwardScratch>(shape_, parts(pass)),
              .part = bytes_of<LinearHeadBackwardPartScratch>(shape_)};
    }
    return {.head = bytes_of<LinearHeadScratch>(shape_, parts(pass)),
            .part = bytes_of<LinearHeadPartScratch>(shape_)};
  }

  void forward(int64_t item, Arena& arena, const Team& team) const {
    linear_attention_forward(shape_, inputs(item, arena), rows(tensors_.out, item, arena),
                             state(item), arena, team);
  }

  void backward(int64_t item, const torch::Tensor& grad_out,
                const torch::autograd::variable_list& gradients, Arena& arena,
                const Team& team) const {
    linear_attention_backward(
        shape_, inputs(item, arena), head(tensors_.out, item, arena), state(item),
        head(grad_out, item, arena),
        {.q = rows(gradients[0], item, arena),
         .k = rows(gradients[1], item, arena),
         .v = rows(gradients[2], item, arena),
         .largest = shared_ ? grad_largest_.mutable_data_ptr<float>() + item : nullptr},
        arena, team);
  }

  // The gradient of a c that all share belongs to the key that has it.
  void finish(torch::autograd::variable_list& gradients) const {
    if (!shared_ || grad_largest_.numel() == 0) return;
    const auto grads = std::span(grad_largest_.const_data_ptr<float>(),
                                 static_cast<size_t>(grad_largest_.numel()));
    const float all = std::accumulate(grads.begin(), grads.end(), 0.0F);
    const int64_t* const owner = tensors_.state[4].const_data_ptr<int64_t>();
    const float* const row = shape_.projection + owner[2] * shape_.depth;
    const PositionRange key{owner[1], owner[1] + 1};
    parallel_for_items(1, copied_bytes(gradients[1], /*rows=*/1), [&](int64_t, Arena& arena) {
      const WrittenHead grad(gradients[1], owner[0] / heads_, owner[0] % heads_, key, arena,
                             OldRows::read);
      float* const to = Matrix(grad).data;
      for (int64_t i = 0; i < shape_.depth; ++i) to[i] += all * row[i];
    });
  }

 private:
  // c of all heads' keys; returns whose it is and where it stands.
  torch::Tensor share() {
    std::vector<Largest> of_heads(static_cast<size_t>(batch_ * heads_));
    parallel_for_items(batch_ * heads_,
                       bytes_of<LinearHeadLargestScratch>(shape_) +
                           copied_bytes(at::TensorList(tensors_.in).slice(0, kHeadInputs)),
                       [&](int64_t item, Arena& arena) {
                         of_heads[static_cast<size_t>(item)] =
                             feature_largest(shape_, inputs(item, arena), arena);
                       });
    torch::Tensor owner = torch::zeros({3}, torch::kInt64);
    if (of_heads.empty()) return owner;
    const auto found = std::ranges::max_element(of_heads, {}, &Largest::value);
    largest_ = found->value;
    int64_t* const to = owner.mutable_data_ptr<int64_t>();
    to[0] = found - of_heads.begin();
    to[1] = found->row;
    to[2] = found->feature;
    return owner;
  }

  // W is rounded by linear_attention(). Where products of bfloat16 are no faster, they round again.
  static bool is_rounded(const HeadTensors& tensors) {
    return is_copied_head(tensors.in[0]) && is_copied_head(tensors.in[1]) &&
           gemm_precision() == GemmPrecision::bfloat16 &&
           gemm_bf16_backend() != GemmBf16Backend::float32;
  }

  static LinearHeadShape shape_of(const HeadTensors& tensors, const Options& options) {
    const torch::Tensor &q = tensors.in[0], &table = tensors.in[4];
    const int64_t length = q.size(2), depth = q.size(3);
    LinearHeadShape shape{
        .map = options.map,
        .length = length,
        .depth = depth,
        .width = depth,
        .norm = static_cast<float>(options.norm),
        .offset = static_cast<float>(options.offset),
        .normalise = options.normalise,
        .share = options.normalise ? 1.0F : 1 / std::sqrt(static_cast<float>(length)),
        .denominator_min = static_cast<float>(options.denominator_min),
        .epsilon = static_cast<float>(options.epsilon),
        .guard = static_cast<float>(options.guard),
        .count_padding = options.count_padding,
        .max_gradient = options.max_gradient};
    switch (options.map) {
      case FeatureMap::elu:
        break;
      case FeatureMap::cosine:
        shape.width = 2 * depth;
        break;
      case FeatureMap::relu:
      case FeatureMap::softmax:
        shape.width = table.size(0);
        shape.projection = table.const_data_ptr<float>();
        shape.rounded = is_rounded(tensors);
    }
    return shape;
  }

  LinearHeadInputs inputs(int64_t item, Arena& arena) const {
    const torch::Tensor& table = tensors_.in[4];
    return {.q = input(0, item, arena),
            .k = input(1, item, arena),
            .v = input(2, item, arena),
            .mask = mask_row(tensors_.in[3], item),
            .phases = shape_.map == FeatureMap::cosine
                          ? table.const_data_ptr<float>() + item / heads_ * table.stride(0)
                          : nullptr,
            .largest = largest_};
  }

  LinearHeadState state(int64_t item) const {
    const auto& s = tensors_.state;
    return {.sums = s[0].mutable_data_ptr<float>() + item * s[0].size(2),
            .largest = s[1].mutable_data_ptr<float>() + item,
            .where = s[2].mutable_data_ptr<int64_t>() + 2 * item,
            .denominators = s[3].mutable_data_ptr<float>() + item * shape_.length};
  }

  const LinearHeadShape shape_;
  const bool shared_;  // whether all heads of the batch have one c
  std::optional<float> largest_;
  torch::Tensor grad_largest_;  // [B,H], where it is shared, backward
};

}  // namespace

bool takes(const Place& place, const LinearAttentionShape& shape) {
  return is_cpu_stored(place) && shape.float_table;
}

torch::Tensor run(const LinearAttentionCall& call) {
  const torch::Tensor table = call.table.defined() ? call.table : torch::empty({0}, torch::kFloat);
  return HeadFunction<LinearAttentionOp>::call({call.q, call.k, call.v, call.mask, table},
                                               call.options);
}

int64_t bytes(const LinearAttentionShape& given) {
  const LinearHeadShape shape{
      .length = given.length, .depth = given.head_dim, .width = given.width};
  const int64_t items = given.batch * given.heads,
                parts = parts_for(items, tile_count(given.length, kFeatureTile)),
                kept = shape.sums() + 1 + given.length;
  return items * (given.length * given.head_dim + kept) * static_cast<int64_t>(sizeof(float)) +
         items * 2 * static_cast<int64_t>(sizeof(int64_t)) +
         scratch_bytes(items, parts,
                       {.head = bytes_of<LinearHeadScratch>(shape, parts),
                        .part = bytes_of<LinearHeadPartScratch>(shape)});
}

}  // namespace lra::ops::cpu
