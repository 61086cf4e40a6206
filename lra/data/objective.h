// What a model is trained to say: its task's labels, or tokens of the task's own inputs.
#pragma once

#include <array>
#include <cstdint>

namespace lra {

struct Batch;

enum class Objective {
  classify,  // the task's labels
  masked,    // tokens that are hidden from it
  causal,    // at each token the one behind it
};
constexpr auto names(Objective) { return std::array{"classify", "masked", "causal"}; }

/// Whether the labels are tokens of the inputs.
constexpr bool predicts_tokens(Objective objective) { return objective != Objective::classify; }

/// How the labels of a batch are made of its tokens.
struct TokenObjective {
  Objective objective = Objective::classify;
  double share = 0.15;    // masked: the probability that a real token is hidden
  int64_t hidden_id = 0;  // masked: what stands in its place, the first id beyond the vocabulary
  uint64_t seed = 0;      // masked: of the draw
};

/// The number of the pass that an evaluation is; training step s, counted from 0, is pass s + 1.
inline constexpr int64_t kEvaluationPass = 0;

/// Puts labels of tokens, [B,inputs,N] int64 with -1 = none, in place of those of a batch on the
/// host. masked: each real token is hidden with probability `share`, of an input of which none
/// would be one at random; its label is the id that it had. causal: the label of a real token is
/// the id behind it, where that is real too. What is hidden depends on the seed, the pass, the row
/// in the split and the number of real tokens alone.
void label_tokens(const TokenObjective& how, int64_t pass, Batch& batch);

}  // namespace lra
