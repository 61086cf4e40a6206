#include "tests/bench/team_work.h"

#include <algorithm>

#include "attention_variants/ops/cpu/kernels/heads/block_sparse_attention.h"
#include "attention_variants/ops/cpu/kernels/heads/landmark_attention.h"
#include "attention_variants/ops/cpu/kernels/heads/linear_attention.h"
#include "attention_variants/ops/cpu/kernels/heads/lsh_attention.h"
#include "attention_variants/ops/cpu/kernels/heads/softmax_attention.h"

namespace lra::ops::cpu {
namespace {

constexpr int64_t kDepth = 32, kLandmarks = 64, kTaps = 35, kIterations = 6;

// q, k, v, a result, its gradient and three more, [N,d] each.
struct HeadRows {
  explicit HeadRows(int64_t length)
      : data(torch::randn({8, length, kDepth})), mask(torch::ones({length}, torch::kBool)) {}
  Matrix operator[](int64_t i) const { return mutable_head_rows(data.unsqueeze(0), 0, i); }
  const bool* tokens() const { return mask.const_data_ptr<bool>(); }
  torch::Tensor data, mask;
};

// Each tile of queries sees a band of keys around it.
SparsityPattern band(int64_t length) {
  constexpr int64_t kHalf = 128;
  SparsityPattern pattern{.tiles = {}, .before = kHalf, .after = kHalf};
  for (int64_t begin = 0; begin < length; begin += kBandTile) {
    const int64_t end = std::min(begin + kBandTile, length);
    pattern.tiles.push_back(
        {.queries = {begin, end},
         .keys = {{std::max<int64_t>(0, begin - kHalf), std::min(length, end + kHalf)}}});
  }
  return pattern;
}

}  // namespace

TeamWork landmark_work(int64_t length, int64_t parts, Pass pass) {
  const LandmarkHeadShape shape{.length = length,
                                .landmarks = kLandmarks,
                                .depth = kDepth,
                                .iterations = kIterations,
                                .kernel = kTaps};
  const HeadRows rows(length);
  const torch::Tensor taps = torch::randn({2, kTaps});
  Memory saving(bytes_of<LandmarkHeadSaved>(shape));
  const LandmarkHeadSaved saved(shape, saving.arena());
  const LandmarkHeadInputs in{.q = rows[0],
                              .k = rows[1],
                              .v = rows[2],
                              .mask = rows.tokens(),
                              .conv_weight = taps.const_data_ptr<float>()};
  if (pass == Pass::forward) {
    return {.bytes = {.head = bytes_of<LandmarkHeadScratch>(shape, InnerPadding::no, parts),
                      .part = bytes_of<LandmarkHeadPartScratch>(shape)},
            .pass =
                [=](Arena& arena, const Team& team) {
                  landmark_attention_forward(shape, in, rows[3], saved, arena, team);
                },
            .kept = {taps, saving.tensor()}};
  }
  Memory memory(bytes_of<LandmarkHeadScratch>(shape, InnerPadding::no, 1) +
                bytes_of<LandmarkHeadPartScratch>(shape));
  landmark_attention_forward(shape, in, rows[3], saved, memory.arena(), Team(memory.arena()));
  return {.bytes = {.head = bytes_of<LandmarkHeadBackwardScratch>(shape, InnerPadding::no, parts),
                    .part = bytes_of<LandmarkHeadBackwardPartScratch>(shape)},
          .pass =
              [=](Arena& arena, const Team& team) {
                landmark_attention_backward(shape, in, saved, rows[4],
                                            {.q = rows[5],
                                             .k = rows[6],
                                             .v = rows[7],
                                             .conv_weight = taps.mutable_data_ptr<float>() + kTaps},
                                            arena, team);
              },
          .kept = {taps, saving.tensor()}};
}

TeamWork linear_work(int64_t length, int64_t parts, Pass pass) {
  const LinearHeadShape shape{.length = length, .depth = kDepth, .width = kDepth, .offset = 1};
  const HeadRows rows(length);
  const torch::Tensor sums = torch::empty({shape.sums() + 1 + length}),
                      where = torch::empty({2}, torch::kInt64);
  float* const first = sums.mutable_data_ptr<float>();
  const LinearHeadInputs in{.q = rows[0], .k = rows[1], .v = rows[2], .mask = rows.tokens()};
  const LinearHeadState state{.sums = first,
                              .largest = first + shape.sums(),
                              .where = where.mutable_data_ptr<int64_t>(),
                              .denominators = first + shape.sums() + 1};
  if (pass == Pass::forward) {
    return {.bytes = {.head = bytes_of<LinearHeadScratch>(shape, parts),
                      .part = bytes_of<LinearHeadPartScratch>(shape)},
            .pass =
                [=](Arena& arena, const Team& team) {
                  linear_attention_forward(shape, in, rows[3], state, arena, team);
                },
            .kept = {sums, where}};
  }
  Memory memory(bytes_of<LinearHeadScratch>(shape, 1) + bytes_of<LinearHeadPartScratch>(shape));
  linear_attention_forward(shape, in, rows[3], state, memory.arena(), Team(memory.arena()));
  return {.bytes = {.head = bytes_of<LinearHeadBackwardScratch>(shape, parts),
                    .part = bytes_of<LinearHeadBackwardPartScratch>(shape)},
          .pass =
              [=](Arena& arena, const Team& team) {
                linear_attention_backward(shape, in, rows[3], state, rows[4],
                                          {.q = rows[5], .k = rows[6], .v = rows[7]}, arena, team);
              },
          .kept = {sums, where}};
}

TeamWork softmax_work(int64_t length, int64_t parts, Pass) {
  const SoftmaxShape shape{
      .queries = length, .keys = length, .depth = kDepth, .values = kDepth, .scale = 0.18F};
  const HeadRows rows(length);
  const torch::Tensor kept = torch::empty({1, 2, length});
  const SoftmaxInputs in{.q = rows[0], .k = rows[1], .v = rows[2]};
  Memory memory(bytes_of<SoftmaxPartScratch>(shape, Pass::forward));
  for (int64_t begin = 0; begin < length; begin += kQueryTile)
    softmax_forward(shape, in, begin, rows[3].from(begin), softmax_stats(kept, 0), memory.arena());
  return {.bytes = {.head = bytes_of<SoftmaxBackwardScratch>(shape, KeyCopies::no, parts),
                    .part = bytes_of<SoftmaxPartScratch>(shape, Pass::backward)},
          .steps = (length + kQueryTile - 1) / kQueryTile,
          .pass = [=](Arena& arena, const Team& team) {
            softmax_backward(shape, in, rows[3], softmax_stats(kept, 0), rows[4],
                             {.q = rows[5], .k = rows[6], .v = rows[7]}, KeyCopies::no, arena,
                             team);
          }};
}

TeamWork band_work(int64_t length, int64_t, Pass pass) {
  const BlockSparseHeadShape shape{
      .length = length, .depth = kDepth, .values = kDepth, .scale = 0.18F};
  const SparsityPattern pattern = band(length);
  const PatternSizes sizes(pattern);
  const HeadRows rows(length);
  const torch::Tensor kept = torch::empty({1, 2, length});
  const BlockSparseHeadInputs in{.q = rows[0], .k = rows[1], .v = rows[2], .mask = rows.tokens()};
  const auto forward = [=](const Team& team) {
    block_sparse_forward(shape, pattern, in, rows[3], softmax_stats(kept, 0), team);
  };
  const int64_t part = bytes_of<BlockSparseHeadScratch>(shape, sizes);
  if (pass == Pass::forward)
    return {.bytes = {.part = part}, .pass = [=](Arena&, const Team& team) { forward(team); }};
  Memory memory(part);
  forward(Team(memory.arena()));
  return {.bytes = {.head = bytes_of<BlockSparseHeadTurns>(pattern),
                    .part = bytes_of<BlockSparseHeadBackwardScratch>(shape, sizes)},
          .pass = [=](Arena& arena, const Team& team) {
            block_sparse_backward(shape, pattern, in, rows[3], softmax_stats(kept, 0), rows[4],
                                  {.q = rows[5], .k = rows[6], .v = rows[7]}, arena, team);
          }};
}

TeamWork lsh_work(int64_t length, int64_t parts, Pass pass) {
  static constexpr int64_t kRounds = 2;
  static constexpr int64_t kFactors[] = {64};
  const LshShape shape{.length = length,
                       .depth = kDepth,
                       .values = kDepth,
                       .rounds = kRounds,
                       .chunk = kLshChunk,
                       .before = 1};
  const HeadRows rows(length);
  const torch::Tensor rotations = torch::randn({kRounds, kFactors[0] / 2, kDepth}),
                      order = torch::empty({kRounds * length}, torch::kInt32),
                      sums = torch::empty({2, length});
  const LshInputs in{.x = rows[0], .v = rows[2], .mask = rows.tokens()};
  const LshBuckets buckets{.factors = kFactors, .rotations = rotations.const_data_ptr<float>()};
  auto* const at = order.mutable_data_ptr<int32_t>();
  float *const top = sums.mutable_data_ptr<float>(), *const inverse = top + length;
  const auto forward = [=](const Team& team) {
    lsh_sort(shape, in, buckets, at, team);
    lsh_forward(shape, in, at, rows[3], top, inverse, team);
  };
  const int64_t part =
      std::max(bytes_of<LshSortScratch>(shape, buckets), bytes_of<LshScratch>(shape));
  if (pass == Pass::forward) {
    return {.bytes = {.part = part},
            .pass = [=](Arena&, const Team& team) { forward(team); },
            .kept = {rotations, order, sums}};
  }
  Memory memory(part);
  forward(Team(memory.arena()));
  return {.bytes = {.head = bytes_of<LshEdges>(shape, parts),
                    .part = bytes_of<LshBackwardScratch>(shape)},
          .pass =
              [=](Arena& arena, const Team& team) {
                lsh_backward(shape, in, at, rows[3], top, inverse, rows[4], rows[5], rows[7], arena,
                             team);
              },
          .kept = {rotations, order, sums}};
}

}  // namespace lra::ops::cpu
