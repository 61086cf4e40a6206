// What the model adds to its rows: the feed-forward block, an attention's output projection, or a
// dropout of what an attention made. The own kernels need a dropout below 1, drop the same numbers
// as philox_dropout(), and are differentiable once.
#pragma once

#include "attention_variants/ops/linear.h"
#include "attention_variants/ops/types.h"
#include "attention_variants/torch.h"

namespace lra::ops {

/// Parameters of a block of width D and feed-forward width F.
struct FeedForwardWeights {
  torch::Tensor norm_weight, norm_bias;  // [D]; [0] where the block has no norm of its own
  torch::Tensor in_weight, in_bias;      // [F,D], [F]
  torch::Tensor out_weight, out_bias;    // [D,F], [D]
  double norm_eps = 1e-5;
  Gelu gelu = Gelu::exact;
};

struct DroppedRowsShape {
  double dropout = 0;
  bool same_type = true;  // of what is added up
  Gelu gelu = Gelu::exact;
  int64_t normed_width = 0;  // of rows that are normalised; 0 = they are not
};

struct FeedForwardCall {
  using Result = torch::Tensor;
  using Shape = DroppedRowsShape;
  torch::Tensor x;
  FeedForwardWeights weights;
  double dropout = 0;
  bool training = false;
  torch::Tensor mask;
};

/// x + dropout(W2 dropout(GELU(W1 norm(x) + b1)) + b2) for x [...,D]. The own kernel computes a
/// tile of rows at a time, so that nothing of width F is ever stored; its backward pass computes it
/// anew. Rows where mask [...] (undefined: all true) is false are anything finite.
torch::Tensor feed_forward(Kernels asked, const torch::Tensor& x, const FeedForwardWeights& weights,
                           double dropout, bool training, const torch::Tensor& mask = {});

struct AddProjectedCall {
  using Result = torch::Tensor;
  using Shape = DroppedRowsShape;
  torch::Tensor x, y;
  LinearWeights layer;
  double dropout = 0;
  bool training = false;
  torch::Tensor mask;
};

/// x + philox_dropout(y Wᵀ + b), x [...,D], y [...,E], weight [D,E]. Rows where mask [...]
/// (undefined: all true) is false are anything finite.
torch::Tensor add_projected(Kernels asked, const torch::Tensor& x, const torch::Tensor& y,
                            const LinearWeights& layer, double dropout, bool training,
                            const torch::Tensor& mask = {});

struct AddDroppedOutCall {
  using Result = torch::Tensor;
  using Shape = DroppedRowsShape;
  torch::Tensor x, y;
  double dropout = 0;
  bool training = false;
  torch::Tensor mask;
};

/// x + philox_dropout(y), x and y [...,D]. Rows where mask [...] (undefined: all true) is false are
/// anything finite.
torch::Tensor add_dropped_out(Kernels asked, const torch::Tensor& x, const torch::Tensor& y,
                              double dropout, bool training, const torch::Tensor& mask = {});

}  // namespace lra::ops
