// Batches from a split: seeded order, any starting position, prepared ahead on a thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "attention_variants/torch.h"
#include "lra/data/objective.h"
#include "lra/data/prepared.h"

namespace lra {

/// What a model sees.
struct Batch {
  torch::Tensor tokens;  // [B, inputs, N] int64, padded with 0
  torch::Tensor mask;    // [B, inputs, N] bool, true = a token
  // [B] int64; or [B,N] where they stand at positions, -1 = none; or [B, inputs, N] of tokens
  torch::Tensor labels;
  torch::Tensor index;         // [B] int64, row in the split
  bool full = false;           // the mask is known to be true throughout
  torch::Tensor lengths = {};  // [B] int64: tokens of a sample's longest input, whatever the mask
};

/// The numbers [begin, end).
struct Range {
  int64_t begin = 0, end = INT64_MAX;
};

/// Every `of`-th from number `index` on.
struct Stride {
  int64_t index = 0, of = 1;
};

/// Number `index` of `shares` contiguous shares of [0, count), in their order: the first count %
/// shares of them hold one more than the others.
Range share_of(int64_t count, int64_t index, int64_t shares);

/// The mask of a kind, bool as `tokens` [...,N]; `by_length`: that of
/// InputMask::length, read for that kind alone.
torch::Tensor input_mask(InputMask kind, const torch::Tensor& tokens,
                         const torch::Tensor& by_length);

struct LoaderOptions {
  int64_t batch = 32;
  int64_t length = 2048;  // N: longer samples are cut, shorter ones padded
  bool shuffle =
      false;  // TrainingStream: a fresh seeded permutation each epoch; else the split's own order
  InputMask mask = InputMask::length;
  int64_t cut = 0;         // tokens kept of a sample; 0 = length
  bool drop_last = false;  // one pass: leave out the last incomplete batch
  uint64_t seed = 0;       // of the permutations
  int64_t prefetch = 2;    // batches prepared ahead on a thread; 0 = none
  Range samples;           // TrainingStream: only these of each batch
  Stride batches;          // EvaluationPass: only these of its batches
  bool by_length = false;  // EvaluationPass: the longest samples first, each batch padded to the
                           // longest of its own (up to a multiple of 64) and not to N
  TokenObjective tokens;   // of the streams: label_tokens() where it predicts tokens

  /// Tokens of a sample that are read.
  int64_t kept() const { return cut == 0 ? length : std::min(length, cut); }
};

/// Samples `rows`, which count through all splits, of N = `length` positions, in the order given.
Batch gather_batch(const std::vector<Split>& splits, const std::vector<int64_t>& rows,
                   int64_t length, const LoaderOptions& options);

/// Which samples of `size` the batches of a TrainingStream hold, one batch after another.
class TrainingOrder {
 public:
  TrainingOrder(int64_t size, const LoaderOptions& options, int64_t start_batch);
  std::vector<int64_t> next();

 private:
  int64_t size_;
  LoaderOptions options_;
  int64_t position_, epoch_ = -1;
  std::vector<int64_t> order_;  // of the epoch, where they are shuffled
};

/// An endless stream of batches of exactly `batch` samples (training), or of their `samples` alone.
/// Position i of the stream is element i % count of the permutation of epoch i / count; batch p
/// holds positions p * batch to (p + 1) * batch - 1, so it may span two epochs and the stream can
/// start at any batch. Errors on the thread come out of next().
class TrainingStream {
 public:
  TrainingStream(const Split& split, const LoaderOptions& options, int64_t start_batch = 0);
  /// Over several splits as if they were one, in that order; `index` of a batch counts through.
  TrainingStream(std::vector<Split> splits, const LoaderOptions& options, int64_t start_batch = 0);
  ~TrainingStream();
  Batch next();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// One pass over a split in order (or by length), or over some of its batches, the last batch as
/// short as it comes (evaluation). The last incomplete batch of the split's own order is the one
/// left out, whatever the order of the pass.
class EvaluationPass {
 public:
  EvaluationPass(const Split& split, const LoaderOptions& options);
  ~EvaluationPass();
  /// False at the end.
  bool next(Batch& batch);

  /// How many batches a whole pass has, and how many samples.
  static int64_t batch_count(const Split& split, const LoaderOptions& options);
  static int64_t sample_count(const Split& split, const LoaderOptions& options);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The permutation of epoch `epoch` of `count` samples under `seed` (Fisher-Yates over a
/// counter-based generator of our own, so that it is the same on every machine).
std::vector<int64_t> epoch_permutation(int64_t count, uint64_t seed, int64_t epoch);

}  // namespace lra
