// Dropout with counter-based random numbers: whether an element is kept is a function of one seed
// and of its index, so that any number of threads draws the same mask and no mask is stored.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <vector>

namespace lra {

/// Zeroes each element of x with probability p and multiplies the others by 1 / (1 - p), in
/// training; gives x itself in evaluation and for p = 0. The seed is one number of LibTorch's
/// default CPU generator; the numbers are Philox4x32-10 (Salmon et al., SC 2011), 16 bits an
/// element: p is rounded to a multiple of 2^-16, and 1 / (1 - p) is that of the rounded p. On GPUs,
/// and for p = 1, this is LibTorch's own dropout. x of any shape, float32, float64 or bfloat16;
/// throws c10::Error where p is not in [0, 1].
torch::Tensor philox_dropout(const torch::Tensor& x, double p, bool training);

/// The module of that function.
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
