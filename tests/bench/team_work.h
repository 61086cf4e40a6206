// Heads for a team to share: one pass over one head of an operator.
#pragma once

#include <functional>
#include <vector>

#include "attention_variants/ops/cpu/heads.h"

namespace lra::ops::cpu {

/// An arena and its memory.
class Memory {
 public:
  explicit Memory(int64_t bytes)
      : memory_(torch::empty({bytes}, torch::kByte)),
        arena_(reinterpret_cast<std::byte*>(memory_.mutable_data_ptr()), bytes) {}
  Arena& arena() { return arena_; }
  const torch::Tensor& tensor() const { return memory_; }

 private:
  torch::Tensor memory_;
  Arena arena_;
};

/// One pass over a head of so many positions, what it works in, and the tensors that it reads.
struct TeamWork {
  HeadScratch bytes;
  int64_t steps = 0;
  std::function<void(Arena& arena, const Team& team)> pass;
  std::vector<torch::Tensor> kept = {};
};

/// On a team of so many parts.
TeamWork landmark_work(int64_t length, int64_t parts, Pass pass);
TeamWork linear_work(int64_t length, int64_t parts, Pass pass);
/// Backward alone: forward, tiles of queries are items of their own.
TeamWork softmax_work(int64_t length, int64_t parts, Pass pass);
/// Of 257 keys around each query, in tiles of so many queries.
inline constexpr int64_t kBandTile = 128;
TeamWork band_work(int64_t length, int64_t parts, Pass pass);
/// Two rounds of chunks of so many tokens, of a length that they divide.
inline constexpr int64_t kLshChunk = 64;
TeamWork lsh_work(int64_t length, int64_t parts, Pass pass);

}  // namespace lra::ops::cpu
