// Attentions whose forward is another runtime's: TorchScript's, or Python's
// (variants/torchscript.cpp, variants/python.cpp).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "attention_variants/attention.h"

namespace lra {

/// A tensor of an outside module.
struct OutsideTensor {
  std::string path;  // "layer.weight", as the module names it
  torch::Tensor tensor;
  bool trained = false;  // false: a buffer, or a parameter that asks for no gradient
};

/// A module of another runtime. Its tensors are shared, not copied: optimizers, checkpoints and
/// to() change them in place.
class OutsideModule {
 public:
  virtual ~OutsideModule() = default;

  /// True: forward(q, k, v, mask), [B,H,N,d] and mask [B,N] bool (true = a token) -> [B,H,N,d].
  /// False: forward(x, mask), a whole layer, [B,N,D] -> [B,N,D].
  virtual bool takes_heads() const = 0;

  /// Attention::length_invariant(), where the module says so.
  virtual bool length_invariant() const { return false; }

  /// Every tensor once, in the module's own order: those of a module before those of its children.
  virtual std::vector<OutsideTensor> tensors() const = 0;

  /// forward(); throws Error that begins with the module's name, and c10::OutOfMemoryError.
  virtual torch::Tensor call(const std::vector<torch::Tensor>& inputs) = 0;

  virtual void train(bool on) = 0;
};

/// The attention that calls `module`, whose results it checks; takes_heads() gives it the four
/// projections that every other attention has. `where` names it in errors, `options` are what
/// records say of it. State names are module.<path>.
std::shared_ptr<Attention> make_outside_attention(const AttentionContext& context,
                                                  std::unique_ptr<OutsideModule> module,
                                                  std::string where, json options);

}  // namespace lra
