// Dropouts as the operators that work on parts of their tensors apply them.
#pragma once

#include <cstdint>
#include <string>

#include "attention_variants/ops/dropout.h"
#include "attention_variants/torch.h"

namespace lra::ops::cpu {

/// One dropout of a tensor.
struct DropoutMask {
  uint64_t seed = 0;
  uint32_t threshold = 0;  // of 65536: the share that is dropped; 0 = nothing is
  int64_t first = 0;       // the index of the tensor's first element in that of the whole batch
  torch::Tensor bits;      // which elements were kept; undefined: they are drawn each time

  double scale() const { return dropout_scale(threshold); }
};

/// Whether the bits of a dropout are kept for the backward pass, where one may follow, or drawn
/// anew each time.
enum class DropoutBits { kept, drawn_anew };
/// That of a call of philox_dropout() on `count` elements, its seed drawn as that would; p below 1.
DropoutMask make_dropout_mask(double p, bool training, int64_t count,
                              DropoutBits bits = DropoutBits::kept);

/// Keeps a mask for the backward pass of an operator, under a name, and gives it back.
void save_dropout(torch::autograd::AutogradContext& context, const std::string& name,
                  const DropoutMask& mask);
DropoutMask saved_dropout(const torch::autograd::AutogradContext& context, const std::string& name);

/// Elements [start, start + count) of the dropout of x, start a multiple of 128: x and y point at
/// the first of them, and may be the same.
void apply_dropout(const DropoutMask& mask, int64_t start, int64_t count, const float* x, float* y);
/// The same of elements that apply_dropout() was called for, of what is dropped with them.
void reapply_dropout(const DropoutMask& mask, int64_t start, int64_t count, const float* x,
                     float* y);

}  // namespace lra::ops::cpu
