// What a layer calls and what a variant implements. A variant is one file: comment (paper, cost),
// options struct, class, one registration line. See variants/nystrom.cpp.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "attention_variants/base/fields.h"
#include "attention_variants/ops/linear.h"
#include "attention_variants/ops/types.h"
#include "attention_variants/torch.h"

namespace lra {

using ops::Kernels;
using ops::PaddedRows;

/// Tensors that the layers of one model share, by name: the first layer that needs one adds it.
using SharedTensors = std::map<std::string, torch::Tensor>;

/// What an attention layer is built from: its sizes, its seed and settings of the model around it.
struct AttentionContext {
  int64_t width = 64;         // D, model width
  int64_t heads = 2;          // H
  int64_t head_dim = 32;      // d; heads * head_dim need not equal width
  int64_t max_length = 2048;  // longest N that forward() will see
  uint64_t seed = 0;  // of projections, hashes and random patterns: equal seeds, equal functions
  Kernels kernels = Kernels::fused;
  PaddedRows padded_rows = PaddedRows::zero;
  double dropout = 0;         // the model's rate, for variants with AttentionInfo::model_dropout
  bool tied_dropout = false;  // whether dropout drops a channel at all positions of a sample
  bool bias = true;           // whether the projections to q, k, v and the output have biases
  int64_t layer = 0;          // index of this layer in its model
  std::shared_ptr<SharedTensors> shared = nullptr;  // of its model; null: a layer of no model
  bool causal = false;                              // whether position i attends to j <= i alone
  double rotary_base = 0;  // base of rotary positions of q and k (ops/rotary.h); 0: none
};

/// Which of q, k and v are one tensor where a layer calls attend().
enum class Projections {
  query_key_value,
  shared_query_key,  // one projection, query_key: k is q
  value_only,        // q and k are v: attend() reads v alone
};

/// The rows that an attention layer reads: x [B,N,D], which go through a layer normalisation first
/// where one is given.
struct NormedInput {
  torch::Tensor x;
  const ops::RowNorm* norm = nullptr;
};

/// What an output projection reads, [B,N,H*d], and that projection.
struct Unprojected {
  torch::Tensor joined;
  ops::LinearWeights output = {};
};

/// What goes into a residual sum whose weights are a gate: x + gate (y - x), all [B,N,D]. Where
/// `gate` is undefined the sum is x + y.
struct GatedRows {
  torch::Tensor y, gate;
};

/// Self-attention over a batch of sequences.
class Attention : public torch::nn::Module {
 public:
  ~Attention() override = default;

  /// x [B,N,D], mask [B,N] bool (true = a token) -> [B,N,D]; rows of padded positions are zero.
  /// What stands at padded positions, and the other samples of the batch, change nothing at real
  /// ones.
  virtual torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& mask) = 0;

  /// Of normed rows x [B,N,D], what a block puts together with its input, which is not normed: for
  /// attentions that gate their residual sum (Mega). Rows of padded positions are zero in both. A
  /// plain residual of forward() unless a variant says otherwise; forward() of one that does is
  /// gate (y - x).
  virtual GatedRows forward_gated(const torch::Tensor& x, const torch::Tensor& mask);

  /// forward() as far as its output projection, for a model that computes what stands around it in
  /// the same passes. Whoever goes on with `rows.x` afterwards, as a residual does, lets its
  /// gradient be added in the pass of attend_unprojected(). `joined` is undefined where an
  /// attention has no such form, which is the default. Throws Error where x, mask, or what attend()
  /// gives, is of another shape.
  virtual Unprojected attend_unprojected(NormedInput& rows, const torch::Tensor& mask);

  /// The attention itself, without projections: q, k, v [B,H,N,d], mask [B,N] bool -> [B,H,N,d],
  /// same dtype. Throws Error where the variant has no such form.
  virtual torch::Tensor attend(const torch::Tensor& q, const torch::Tensor& k,
                               const torch::Tensor& v, const torch::Tensor& mask);

  /// How forward() calls attend(); other callers of attend() should do the same.
  virtual Projections projections() const;

  /// Names of the tables that attend() draws from the seed for each shape it meets (hashes, random
  /// patterns) and that set_table() can put in their place.
  virtual std::vector<std::string> tables() const;

  /// What of the AttentionContext decides those tables: "seed", "layer", or "" where nothing does.
  virtual const char* tables_from() const { return tables().empty() ? "" : "seed"; }

  /// Every later attend() uses this table; it throws Error where the shape does not fit q.
  virtual void set_table(const std::string& name, const torch::Tensor& table);

  /// Whether what stands at padded positions may change the rest all the same: then nothing about
  /// them is left out.
  virtual bool reads_padding() const;

  /// Whether padding cut from the end, or added there, changes nothing at real positions but
  /// rounding: an evaluation then pads no further than its samples need.
  virtual bool length_invariant() const;

  /// Whether forward() in training does the same on a GPU whenever it is called with tensors of one
  /// shape, reads nothing back and copies nothing there, so that a CUDA graph may repeat what was
  /// recorded of it: of the second call on, and where no table was set. False unless a variant says
  /// otherwise.
  virtual bool capturable() const;

  /// Whether N positions attend to each other all by softmax, so that it is `standard` at this
  /// length: a window that no sequence is longer than. False unless a variant says otherwise.
  virtual bool sees_all(int64_t length) const;

  /// Names of its own parameters that recipes of state-space layers train at a rate of their own,
  /// without weight decay: transitions and step sizes. None unless a variant says otherwise.
  virtual std::vector<std::string> slow_parameters() const;

  /// Every effective option, for the records.
  virtual json options() const = 0;

  /// Bytes that attend() holds at its peak above its inputs, as an account of its tensors says; -1
  /// where not given.
  virtual int64_t analytic_bytes(int64_t batch, int64_t length, int64_t element_size,
                                 bool training) const;

  /// Floating-point operations (a multiply-add is 2) of one attend() forward; -1 where not given.
  virtual int64_t flops(int64_t batch, int64_t length) const;
};

/// "[2,3]": a tensor's sizes as messages name them.
std::string sizes_text(const torch::Tensor& t);

/// "[2,3] Float", or "undefined": a tensor as messages name it.
std::string shape_text(const torch::Tensor& t);

/// Whether attentions compute in the type of x: float32, float64 or bfloat16. The sums of some are
/// beyond what float16 holds.
bool is_computed(const torch::Tensor& x);

/// Checks q, k, v [B,H,N,d] (equal shapes, dtype and device) and mask [B,N] bool once, at the
/// public boundary; throws Error.
void check_attend_inputs(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                         const torch::Tensor& mask);

/// Checks what a layer of width D reads, x [B,N,D] and mask [B,N] bool, likewise; throws Error.
void check_layer_input(const torch::Tensor& x, const torch::Tensor& mask, int64_t width);

/// Checks mask [batch,length] bool on the device of what it is of; throws Error.
void check_mask(const torch::Tensor& mask, int64_t batch, int64_t length, torch::Device device);

/// Checks shape, type and device of what an attention made of x; throws Error.
void check_attention_result(const torch::Tensor& y, const torch::Tensor& x,
                            at::IntArrayRef expected);

}  // namespace lra
