#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>

#include "attention_variants/ops/cpu/dropout.h"
#include "attention_variants/ops/cpu/head_function.h"
#include "attention_variants/ops/cpu/kernels/heads/softmax_attention.h"
#include "attention_variants/ops/cpu/operators.h"
#include "attention_variants/ops/cpu/parallel.h"

namespace lra::ops::cpu {
namespace {

static_assert(kQueryTile == kWeightDropoutTile);

int64_t query_tiles(int64_t queries) { return tile_count(queries, kQueryTile); }

// q, k, v, keys [B,N], queries [B,M] and the biases of query minus key [2R-1], each of these
// without elements where there is none; the softmaxes' statistics [B,H,2,M].
class SoftmaxOp : public HeadOp {
 public:
  struct Options {
    DropoutMask dropout;
  };
  static constexpr size_t kInputs = 6, kHeadInputs = 3, kKept = 6;
  static constexpr bool kReadsOut = true;
  static constexpr int64_t kOutRows = kQueryTile;

  SoftmaxOp(const HeadTensors& tensors, const Options& options)
      : HeadOp(tensors),
        shape_{.queries = tensors.in[0].size(2),
               .keys = tensors.in[1].size(2),
               .depth = tensors.in[0].size(3),
               .values = tensors.in[2].size(3),
               .scale = 1 / std::sqrt(static_cast<float>(tensors.in[0].size(3)))},
        tiles_(query_tiles(shape_.queries)),
        copies_(copies_of(tensors)),
        ranges_(copies_ == KeyCopies::yes || is_copied(tensors) ? ranges_of_copies() : tiles_),
        dropout_(options.dropout) {}

  void allocate(HeadTensors& tensors, bool) const {
    tensors.out = empty_heads_like(tensors.in[0], shape_.values);
    tensors.state = {torch::zeros({batch_, heads_, 2, shape_.queries}, torch::kFloat)};
  }

  // Tiles of queries are independent forwards.
  int64_t items(Pass pass) const { return batch_ * heads_ * (pass == Pass::forward ? ranges_ : 1); }

  // Gradients of biases are those of all keys.
  int64_t parts(Pass pass) const {
    return pass == Pass::forward || tensors_.in[5].numel() > 0
               ? 1
               : parts_for(items(pass), tile_count(shape_.keys, kLeastKeys));
  }

  HeadScratch scratch(Pass pass) const {
    return {.head = pass == Pass::forward
                        ? bytes_of<KeyScratch>(shape_, copies_)
                        : bytes_of<SoftmaxBackwardScratch>(shape_, copies_, parts(pass)),
            .part = bytes_of<SoftmaxPartScratch>(shape_, pass)};
  }

  void forward(int64_t item, Arena& arena, const Team&) const {
    const int64_t at = item / ranges_, range = item % ranges_;
    SoftmaxInputs in = inputs(at, arena);
    if (copies_ == KeyCopies::yes) copy_keys(shape_, in, KeyScratch(shape_, copies_, arena));
    for (int64_t tile = tiles_ * range / ranges_; tile < tiles_ * (range + 1) / ranges_; ++tile) {
      const Arena::Frame frame(arena);
      const int64_t begin = tile * kQueryTile, end = std::min(begin + kQueryTile, shape_.queries);
      softmax_forward(shape_, in, begin,
                      WrittenHead(tensors_.out, at / heads_, at % heads_, {begin, end}, arena),
                      stats(at), arena);
    }
  }

  void backward(int64_t item, const torch::Tensor& grad_out,
                const torch::autograd::variable_list& gradients, Arena& arena,
                const Team& team) const {
    SoftmaxInputs in = inputs(item, arena);
    if (gradients[5].defined()) in.bias.gradient = gradients[5][item].mutable_data_ptr<float>();
    softmax_backward(shape_, in, head(tensors_.out, item, arena), stats(item),
                     head(grad_out, item, arena),
                     {.q = rows(gradients[0], item, arena),
                      .k = rows(gradients[1], item, arena),
                      .v = rows(gradients[2], item, arena)},
                     copies_, arena, team);
  }

  void allocate_gradients(torch::autograd::variable_list& gradients) const {
    const torch::Tensor& bias = tensors_.in[5];
    if (bias.numel() > 0)  // of each head its own
      gradients[5] = torch::zeros({batch_ * heads_, bias.size(0)}, bias.options());
  }

  void finish(torch::autograd::variable_list& gradients) const {
    if (gradients[5].defined()) gradients[5] = gradients[5].sum(0);
  }

 private:
  // Rows that lie apart are worth a copy where more than one tile reads them.
  KeyCopies copies_of(const HeadTensors& tensors) const {
    const auto lie_apart = [](const torch::Tensor& x) {
      return !is_copied_head(x) && x.stride(2) != x.size(3);
    };
    const bool apart = lie_apart(tensors.in[1]) || lie_apart(tensors.in[2]);
    return (apart && tiles_ > 1) || holes_of(tensors.in[3]) == InnerPadding::yes ? KeyCopies::yes
                                                                                 : KeyCopies::no;
  }

  // Whether an item reads a copy of its head, so that it should have many tiles.
  static bool is_copied(const HeadTensors& tensors) {
    return std::ranges::any_of(tensors.in.begin(), tensors.in.begin() + kHeadInputs,
                               [](const torch::Tensor& x) { return is_copied_head(x); });
  }

  // As many items as share out well.
  int64_t ranges_of_copies() const {
    const int64_t items = 4 * at::get_num_threads(), heads = std::max(batch_ * heads_, int64_t{1});
    return std::clamp((items + heads - 1) / heads, int64_t{1}, std::max(tiles_, int64_t{1}));
  }

  LeadBias bias() const {
    const torch::Tensor& of = tensors_.in[5];
    if (of.numel() == 0) return {};
    return {.values = of.const_data_ptr<float>(), .zero = of.size(0) / 2};
  }

  SoftmaxInputs inputs(int64_t item, Arena& arena) const {
    return {
        .q = input(0, item, arena),
        .k = input(1, item, arena),
        .v = input(2, item, arena),
        .key_mask = mask_row(tensors_.in[3], item),
        .query_mask = mask_row(tensors_.in[4], item),
        // Every tile of queries has a block for each key.
        .dropout = {.seed = dropout_.seed,
                    .threshold = dropout_.threshold,
                    .first_block = dropout_.first / kDropoutBlock + item * tiles_ * shape_.keys},
        .bias = bias()};
  }

  SoftmaxStats stats(int64_t item) const { return softmax_stats(tensors_.state[0], item); }

  const SoftmaxShape shape_;
  const int64_t tiles_;
  const KeyCopies copies_;
  const int64_t ranges_;  // of tiles: items of a head forward
  const DropoutMask dropout_;
};

}  // namespace

bool takes(const Place& place, const SoftmaxAttentionShape& shape) {
  return is_cpu_stored(place) && dropout_threshold(shape.options.dropout) < 65536;
}

torch::Tensor run(const SoftmaxAttentionCall& call) {
  const torch::Tensor none = torch::empty({0}, call.q.options().dtype(torch::kBool)),
                      no_bias = torch::empty({0}, torch::kFloat);
  const auto [dropout, training, per_sample] = call.options;
  const int64_t blocks =
      call.q.size(0) * call.q.size(1) * query_tiles(call.q.size(2)) * call.k.size(2);
  return HeadFunction<SoftmaxOp>::call(
      {call.q, call.k, call.v, call.keys.defined() ? call.keys : none,
       call.queries.defined() ? call.queries : none,
       call.distance_bias.defined() ? call.distance_bias.to(torch::kFloat).flip(0) : no_bias},
      {.dropout =
           make_dropout_mask(dropout, training, blocks * kDropoutBlock, DropoutBits::drawn_anew)});
}

int64_t bytes(const SoftmaxAttentionShape& given) {
  const SoftmaxShape shape{
      .queries = given.queries, .keys = given.keys, .depth = given.depth, .values = given.values};
  const auto scratch = [&](Pass pass, int64_t items, int64_t parts) {
    return scratch_bytes(items, parts,
                         {.head = pass == Pass::forward ? 0
                                                        : bytes_of<SoftmaxBackwardScratch>(
                                                              shape, KeyCopies::no, parts),
                          .part = bytes_of<SoftmaxPartScratch>(shape, pass)});
  };
  constexpr auto kFloat = static_cast<int64_t>(sizeof(float));
  const int64_t forward =
      given.rows * given.queries * (given.values + 2) * kFloat +
      scratch(Pass::forward, given.rows * query_tiles(given.queries), /*parts=*/1);
  if (!given.options.training) return forward;
  // The gradients of q, k and v too; the scratch is no more the forward pass's.
  const int64_t parts =
      given.reach > 0 ? 1 : parts_for(given.rows, tile_count(given.keys, kLeastKeys));
  return given.rows *
             (given.queries * (given.values + 2 + given.depth) +
              given.keys * (given.depth + given.values) + 2 * given.reach) *
             kFloat +
         scratch(Pass::backward, given.rows, parts);
}

}  // namespace lra::ops::cpu
