// What a variant needs that draws its randomness anew as it goes.
#pragma once

#include <array>
#include <cstdint>

#include "attention_variants/torch.h"

namespace lra {

/// When random tables are drawn.
enum class Redraw {
  seed,     // once, from the seed: the same seed gives the same function
  forward,  // in every forward pass, evaluation too, as some released code does
};
constexpr auto names(Redraw) { return std::array{"seed", "forward"}; }

/// Forward passes so far, and no other part of the state. It is read in each pass, and a GPU would
/// have to be waited for: it stays on the CPU. Module::to(dtype) converts integer buffers as well,
/// and bfloat16 cannot count beyond 256: this one keeps its type.
struct ForwardCount : torch::nn::Module {
  ForwardCount() { forwards = register_buffer("forwards", torch::zeros({}, torch::kInt64)); }
  void to(torch::Device, torch::Dtype, bool) override {}
  void to(torch::Dtype, bool) override {}
  void to(torch::Device, bool) override {}

  /// How many there were before this one.
  int64_t next() {
    const torch::NoGradGuard no_grad;
    const int64_t done = forwards.item<int64_t>();
    forwards.add_(1);
    return done;
  }
  torch::Tensor forwards;  // []
};

/// The seed of draw number `draw`: it depends on nothing else, so that a resumed run goes on as if
/// it had not stopped.
inline uint64_t seed_of_draw(uint64_t seed, int64_t draw) {
  // Generators read the low half of a seed: an odd factor tells all draws apart there.
  return seed + static_cast<uint64_t>(draw) * 0x9e3779b97f4a7c15;
}

}  // namespace lra
