// Dropout with counter-based random numbers: whether an element is kept is a function of one seed
// and of its index, so that any number of threads draws the same mask, and of a mask no more than a
// bit an element is stored.
#pragma once

#include <ATen/core/Generator.h>

#include <cstdint>
#include <string>

#include "attention_variants/ops/types.h"
#include "attention_variants/torch.h"

namespace lra::ops {

/// Zeroes each element of x with probability p and multiplies the others by 1 / (1 - p), in
/// training; gives x itself in evaluation and for p = 0. The seed is one number of LibTorch's
/// default CPU generator, or as a BatchSlice says; the numbers are Philox4x32-10 (Salmon et al., SC
/// 2011), 16 bits an element: p is rounded to a multiple of 2^-16, and 1 / (1 - p) is that of the
/// rounded p. On GPUs, and for p = 1, this is LibTorch's own dropout. x of any shape, float32,
/// float64 or bfloat16; throws c10::Error where p is not in [0, 1].
torch::Tensor philox_dropout(const torch::Tensor& x, double p, bool training);

/// One dropout as an operator that works on parts of its tensor applies it.
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

/// While it lives, this thread's tensors are samples [begin, begin + count) of a larger batch, in
/// rows of one size: dropouts on CPUs drop what they would drop of these samples in the whole
/// batch. They draw their seeds from `seeds`, a CPU generator, in place of LibTorch's default one.
class BatchSlice {
 public:
  BatchSlice(int64_t begin, int64_t count, at::Generator seeds);
  ~BatchSlice();
  BatchSlice(const BatchSlice&) = delete;
  BatchSlice& operator=(const BatchSlice&) = delete;

 private:
  friend DropoutMask make_dropout_mask(double p, bool training, int64_t count, DropoutBits bits);
  int64_t begin_, count_;
  at::Generator seeds_;
};

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

/// The module of philox_dropout().
class DropoutImpl : public torch::nn::Cloneable<DropoutImpl> {
 public:
  explicit DropoutImpl(double p) : p_(p) {}
  void reset() override {}
  torch::Tensor forward(const torch::Tensor& x) { return philox_dropout(x, p_, is_training()); }

 private:
  double p_;
};
TORCH_MODULE(Dropout);

}  // namespace lra::ops
