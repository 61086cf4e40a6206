// Dropout with counter-based random numbers: whether an element is kept is a function of one seed
// and of its index, so that any number of threads draws the same mask and no mask is stored.
#pragma once

#include <cstdint>
#include <vector>

#include "attention_variants/torch.h"

namespace lra {

/// Zeroes each element of x with probability p and multiplies the others by 1 / (1 - p), in
/// training; gives x itself in evaluation and for p = 0. The seed is one number of LibTorch's
/// default CPU generator; the numbers are Philox4x32-10 (Salmon et al., SC 2011), 16 bits an
/// element: p is rounded to a multiple of 2^-16, and 1 / (1 - p) is that of the rounded p. On GPUs,
/// and for p = 1, this is LibTorch's own dropout. x of any shape, float32, float64 or bfloat16;
/// throws c10::Error where p is not in [0, 1].
torch::Tensor philox_dropout(const torch::Tensor& x, double p, bool training);

/// One dropout as an operator that works on parts of its tensor applies it.
struct DropoutMask {
  uint64_t seed = 0;
  uint32_t threshold = 0;  // of 65536: the share that is dropped; 0 = nothing is

  float scale() const { return static_cast<float>(65536.0 / (65536.0 - threshold)); }
};

/// That of a call of philox_dropout(), its seed drawn as that would; p below 1.
DropoutMask draw_dropout(double p, bool training);

/// Elements [start, start + count) of the dropout of x, start a multiple of 128: x and y point at
/// the first of them, and may be the same.
void drop_out(const DropoutMask& mask, int64_t start, int64_t count, const float* x, float* y);

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

/// The 16-bit numbers of elements [0, count) under a seed, as the mask reads them.
std::vector<uint16_t> dropout_numbers(uint64_t seed, int64_t count);

}  // namespace lra
