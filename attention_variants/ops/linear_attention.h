// Attention whose kernel is a product of features, computed from the right: φ(Q) (φ(K)ᵀ V).
#pragma once

#include "attention_variants/ops/types.h"
#include "attention_variants/torch.h"

namespace lra::ops {

/// Whether a map is of W x.
inline bool is_projected(FeatureMap map) {
  return map == FeatureMap::relu || map == FeatureMap::softmax;
}

struct LinearAttentionOptions {
  FeatureMap map = FeatureMap::elu;
  double norm = 0;             // of softmax: what ‖x‖² is multiplied by
  double offset = 0;           // of all features
  bool normalise = true;       // false, of elu: the sums over keys are divided by √N instead
  double denominator_min = 0;  // of the denominator
  double epsilon = 0;          // added to the denominator
  double guard = 0;            // denominators of at most it get twice as much added
  bool count_padding = false;  // padded keys count as tokens with k = v = 0
  KeyMax key_max = KeyMax::sample;
  MaxGradient max_gradient = MaxGradient::attached;
};

struct LinearAttentionShape {
  int64_t batch = 0, heads = 0, length = 0, head_dim = 0;
  int64_t width = 0;  // f features
  int64_t element_size = 4;
  bool float_table = true;
  LinearAttentionOptions options = {};
};

/// φ(Q) (φ(K)ᵀ V) / (φ(Q)·Σ φ(K)): q, k, v [B,H,N,d], mask [B,N] bool -> [B,H,N,d]; rows of padded
/// positions are zero. Of the maps relu and softmax, `table` is W [f,d]; of cosine, the positions'
/// sines and cosines [B,N,2]; either at least float32, but for whole modules in bfloat16; else it
/// is undefined. Under autocast to bfloat16 W is rounded as q and k are, and W x is a sum of
/// float32. The own kernel is differentiable once, towards q, k and v.
struct LinearAttentionCall {
  using Result = torch::Tensor;
  using Shape = LinearAttentionShape;
  torch::Tensor q, k, v, mask, table;
  LinearAttentionOptions options = {};

  Shape shape() const {
    const int64_t d = q.size(3);
    return {.batch = q.size(0),
            .heads = q.size(1),
            .length = q.size(2),
            .head_dim = d,
            .width = is_projected(options.map)           ? table.size(0)
                     : options.map == FeatureMap::cosine ? 2 * d
                                                         : d,
            .element_size = q.element_size(),
            .float_table = !table.defined() || table.scalar_type() == torch::kFloat,
            .options = options};
  }
};

torch::Tensor linear_attention(Kernels asked, const LinearAttentionCall& call);

/// Bytes above the inputs and the table without gradients, the result among them.
int64_t linear_attention_bytes(Kernels asked, const LinearAttentionShape& shape);

/// Floating-point operations of one in which every row is a token, a multiply-add two.
int64_t linear_attention_flops(const LinearAttentionShape& shape);

}  // namespace lra::ops
