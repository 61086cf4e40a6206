// The values that a protocol's keys choose among (settings.h).
#pragma once

#include "attention_variants/base/fields.h"

namespace lra {

/// What stands around the attention of a layer (lra/model/blocks/block.h).
enum class BlockKind {
  transformer,  // a residual sum, then a feed-forward block with GELU in another
  s4,           // GELU, a gated linear layer (GLU), a residual sum
  s5,           // GELU and `gate`, a residual sum; no norm at the end of the model
  mega,         // the attention's own gate as residual, then a feed-forward block with SiLU
};
constexpr auto names(BlockKind) { return std::array{"transformer", "s4", "s5", "mega"}; }

/// What follows the attention in block s5, g = dropout(GELU(y)), s the logistic function.
enum class Gate {
  glu,         // dropout(a s(b)), [a, b] = W g
  full_glu,    // dropout((V g) s(W g)): the same function with two weights
  half_glu1,   // dropout(g s(W g))
  half_glu2,   // dropout(y s(W g))
  activation,  // g
};
constexpr auto names(Gate) {
  return std::array{"glu", "full_glu", "half_glu1", "half_glu2", "activation"};
}

/// What becomes of a token, or of a pixel p = (id / 255 - pixel_mean) / pixel_sd; in colour of the
/// three values of p.
enum class Encoding {
  embedding,  // a vector of its own
  linear,     // W p + b, started as torch.nn.Linear
  real,       // the same, W and b started with standard deviations 1 and 0.1 (Mega)
};
constexpr auto names(Encoding) { return std::array{"embedding", "linear", "real"}; }

/// What says where a token stands.
enum class Positions {
  none,
  learned,     // vectors that are added to the tokens'
  sinusoidal,  // fixed sines and cosines, added
  rotary,      // queries and keys of every layer are turned (attention_variants/ops/rotary.h)
};
constexpr auto names(Positions) { return std::array{"none", "learned", "sinusoidal", "rotary"}; }

/// Where a layer normalises.
enum class NormPlacement {
  pre,   // before attention and feed-forward
  post,  // after their sum with the input, and not at the end of the model
};
constexpr auto names(NormPlacement) { return std::array{"pre", "post"}; }

/// By what.
enum class NormKind {
  layer,  // mean and variance of each row
  batch,  // mean and variance of each channel over a batch, in evaluation running ones
  scale,  // the root of each row's mean square, and one learned number (Mega)
};
constexpr auto names(NormKind) { return std::array{"layer", "batch", "scale"}; }

/// The rows that `batch` normalisation counts.
enum class BatchStatistics { real, all };  // all: those of padding too, as published
constexpr auto names(BatchStatistics) { return std::array{"real", "all"}; }

/// What layers make of padding.
enum class Padding {
  masked,   // it changes nothing
  counted,  // it is tokens with id 0 to them; pooling knows the real ones
};
constexpr auto names(Padding) { return std::array{"masked", "counted"}; }

/// What a dropout draws a number for.
enum class DropoutKind {
  plain,  // each element
  tied,   // each channel of a sample: all of its positions keep it or none
};
constexpr auto names(DropoutKind) { return std::array{"plain", "tied"}; }

/// What the classifier reads.
enum class Pooling {
  mean,
  cls,    // the output of a learned vector that goes before the tokens
  first,  // the output of the first token
  last,   // of the last real one
  max,    // the greatest of each channel over the real tokens
};
constexpr auto names(Pooling) { return std::array{"mean", "cls", "first", "last", "max"}; }

/// What mean pooling adds up and divides by.
enum class MeanOver {
  real,    // the real tokens, by their number
  length,  // the real tokens, by the padded length
  all,     // all rows, those of padding too, by the padded length
};
constexpr auto names(MeanOver) { return std::array{"real", "length", "all"}; }

/// Whether the class token is real in the attention's mask: always, or where the first token is.
enum class ClsMask { real, first_token };
constexpr auto names(ClsMask) { return std::array{"real", "first_token"}; }

/// What follows pooling.
enum class Head {
  mlp,     // linear to `classifier`, ReLU, linear to the classes
  linear,  // one linear layer
  gelu,    // linear to `classifier`, GELU, linear to the classes (S4's of two inputs)
  mega,    // linear to `classifier`, dropout, GELU, linear without biases to the classes
  tied,    // products with the embedding's vectors, of which each is a class; labels at positions
};
constexpr auto names(Head) { return std::array{"mlp", "linear", "gelu", "mega", "tied"}; }

/// What the head reads of two inputs.
enum class PairForm {
  interact,  // [a, b, a b, a - b]
  concat,    // [a, b]; of head mlp there is one more layer, of half of `classifier`, with ReLU
};
constexpr auto names(PairForm) { return std::array{"interact", "concat"}; }

/// How weights start.
enum class Init {
  torch,  // as torch.nn.Linear: within ±1/√fan-in, biases too
  flax,   // as LRA's released models: Xavier in attention and feed-forward, whose biases have
          // standard deviation 1e-6, truncated normal of variance 1/fan-in in the head, no bias
  mega,   // as Mega's: normal of standard deviation 0.02 in the feed-forward block, Xavier in the
          // head, no bias
  lecun,  // truncated normal of variance 1/fan-in in blocks and head, no bias: flax's dense layers
};
constexpr auto names(Init) { return std::array{"torch", "flax", "mega", "lecun"}; }

/// Whether --dtype decides, or may only be this.
enum class TrainingDtype { any, float32, bfloat16 };
constexpr auto names(TrainingDtype) { return std::array{"any", "float32", "bfloat16"}; }

enum class AttentionDtype {
  model,
  float32,  // attention leaves autocast, as the first released code does
};
constexpr auto names(AttentionDtype) { return std::array{"model", "float32"}; }

/// w(step) = min(1, step / warmup)
enum class ScheduleKind {
  one_cycle,      // linear up in `warmup` steps, linear down to the end
  rsqrt,          // lr w / sqrt(max(step, warmup))
  cosine,         // lr w times half a cosine from `warmup` on
  constant,       // lr w
  step,           // lr w decay_factor^floor(step / decay_every)
  cosine_end,     // lr w times half a cosine that ends with the run
  cosine_offset,  // the same half, counted from step 0 and cut at its end
  cosine_late,    // that a step late, the first with lr itself (S5)
  power,          // up from lr / start_divisor by the power of `power`, then linear down to 0
};
constexpr auto names(ScheduleKind) {
  return std::array{"one_cycle",  "rsqrt",         "cosine",      "constant", "step",
                    "cosine_end", "cosine_offset", "cosine_late", "power"};
}

/// The split that chooses the checkpoint.
enum class DevSplit {
  dev,   // the data's own
  test,  // the test split, and dev joins train, as where code knows no dev set of its own. Test
         // accuracy is then a selected one.
};
constexpr auto names(DevSplit) { return std::array{"dev", "test"}; }

/// How the steps of a run are launched.
enum class Execution {
  automatic,  // as a graph on GPUs where that can be, else eagerly
  eager,      // operator by operator
  graph,      // recorded once as a CUDA graph and repeated; eagerly where that cannot be
};
constexpr auto names(Execution) { return std::array{"auto", "eager", "graph"}; }

}  // namespace lra
