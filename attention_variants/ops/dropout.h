// Dropout with counter-based random numbers: whether an element is kept is a function of one seed
// and of its index, so that any number of threads draws the same mask, and of a mask no more than a
// bit an element is stored.
#pragma once

#include <ATen/core/Generator.h>

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "attention_variants/ops/types.h"
#include "attention_variants/torch.h"

namespace lra::ops {

/// Of 65536: the share that a dropout of probability p drops.
inline int64_t dropout_threshold(double p) { return std::lround(p * 65536); }

/// A dropout whose seed is drawn: that of one tensor.
struct DrawnDropout {
  uint64_t seed = 0;
  const uint64_t* device_seed = nullptr;  // in a recording (SeedTape): where the seed will stand
  uint32_t threshold = 0;                 // of 65536: the share that is dropped; 0 = nothing is
  int64_t first = 0;  // the index of the tensor's first element in that of the whole batch
};

/// That of a call of philox_dropout() on `count` elements, its seed drawn as that would; p below 1.
DrawnDropout draw_dropout(double p, bool training, int64_t count);

struct DropoutShape {
  double p = 0;
};

struct DropoutCall {
  using Result = torch::Tensor;
  using Shape = DropoutShape;
  torch::Tensor x;
  double p = 0;
};

/// Zeroes each element of x with probability p and multiplies the others by 1 / (1 - p), in
/// training; gives x itself in evaluation and for p = 0. The seed is one number of LibTorch's
/// default CPU generator, or as a BatchSlice says; the numbers are Philox4x32-10 (Salmon et al., SC
/// 2011), 16 bits an element: p is rounded to a multiple of 2^-16, and 1 / (1 - p) is that of the
/// rounded p. For p = 1, and on GPUs without own kernels (ops/cuda) or in float64, this is
/// LibTorch's own dropout, on CPUs never, so that `kernels` changes no random numbers. x of any
/// shape, float32, float64 or bfloat16; throws c10::Error where p is not in [0, 1].
torch::Tensor philox_dropout(const torch::Tensor& x, double p, bool training);

/// The same of what all samples of a batch have in common, as taps: within a BatchSlice all parts
/// of the batch drop the same.
torch::Tensor philox_dropout_of_all(const torch::Tensor& x, double p, bool training);

/// While it lives, this thread's tensors are samples [begin, begin + count) of a larger batch, in
/// rows of one size: dropouts by counters drop what they would drop of these samples in the whole
/// batch. They draw their seeds from `seeds`, a CPU generator, in place of LibTorch's default one.
class BatchSlice {
 public:
  BatchSlice(int64_t begin, int64_t count, at::Generator seeds);
  ~BatchSlice();
  BatchSlice(const BatchSlice&) = delete;
  BatchSlice& operator=(const BatchSlice&) = delete;

  /// This thread's; null: none.
  static const BatchSlice* current();
  /// Of a tensor of `elements` in the slice: the index of its first in that of the whole batch.
  int64_t first_of(int64_t elements) const;
  const at::Generator& seeds() const { return seeds_; }

 private:
  int64_t begin_, count_;
  at::Generator seeds_;
};

/// The seeds of dropouts that are recorded once and run many times, as in a CUDA graph. A dropout
/// that is recorded draws no number: it is given a place on the device, and reads there, each time
/// that it runs, what draw() has put there. It outlives the recording's last run.
class SeedTape {
 public:
  explicit SeedTape(torch::Device device);
  SeedTape(const SeedTape&) = delete;
  SeedTape& operator=(const SeedTape&) = delete;

  /// That of the recording that this thread is in; null: a dropout draws its seed itself.
  static SeedTape* current();
  /// A place for the seed of the next dropout of the recording, on the device. Throws c10::Error
  /// where there are more than 4096.
  const uint64_t* next();
  /// Draws a number of LibTorch's default CPU generator for each place that was given, in their
  /// order, as the dropouts would themselves; the device is not waited for.
  void draw();
  /// Keeps a tensor that the recording reads, as long as this.
  void keep(torch::Tensor read) { kept_.push_back(std::move(read)); }

  /// A recording, for a scope.
  class Recording {
   public:
    explicit Recording(SeedTape& tape);
    ~Recording();
    Recording(const Recording&) = delete;
    Recording& operator=(const Recording&) = delete;
  };

 private:
  torch::Tensor seeds_;  // [4096] int64, on the device
  std::vector<torch::Tensor> kept_;
  int64_t count_ = 0;
};

/// Of x [B,N,D] one draw for each channel of a sample, which is dropped at all of its positions or
/// at none.
torch::Tensor tied_dropout(const torch::Tensor& x, double p, bool training);

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
