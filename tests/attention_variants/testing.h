// Inputs, comparisons and a memory count for the tests of the variants.
#pragma once

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "attention_variants/registry.h"
#include "attention_variants/torch.h"

namespace lra {

struct Inputs {
  torch::Tensor q, k, v;  // [B,H,N,d]
  torch::Tensor mask;     // [B,N]
};

/// mask [B,N] with the first lengths[b] positions of sample b real.
inline torch::Tensor length_mask(const std::vector<int64_t>& lengths, int64_t length) {
  return torch::arange(length).unsqueeze(0) < torch::tensor(lengths).unsqueeze(1);
}

/// Gaussian q, k, v; one sample a length.
inline Inputs make_inputs(const std::vector<int64_t>& lengths, int64_t length,
                          torch::ScalarType type = torch::kDouble, int64_t heads = 2,
                          int64_t width = 4, uint64_t seed = 1) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  const auto draw = [&] {
    return torch::randn({static_cast<int64_t>(lengths.size()), heads, length, width}, generator,
                        torch::kDouble)
        .to(type);
  };
  Inputs in;
  in.q = draw();
  in.k = draw();
  in.v = draw();
  in.mask = length_mask(lengths, length);
  return in;
}

inline std::shared_ptr<Attention> make(
    const std::string& spec, torch::ScalarType type = torch::kDouble,
    AttentionContext context = {
        .width = 8, .heads = 2, .head_dim = 4, .max_length = 64, .seed = 3}) {
  torch::manual_seed(context.seed);
  auto attention = make_attention(parse_attention(spec), context);
  attention->to(type);
  attention->eval();
  return attention;
}

inline torch::Tensor attend(Attention& attention, const Inputs& in) {
  return attention.attend(in.q, in.k, in.v, in.mask);
}

/// The largest deviation from `exact` (float64), as a share of its largest element.
inline double error(const torch::Tensor& given, const torch::Tensor& exact) {
  return ((given.to(torch::kDouble) - exact).abs().max() / exact.abs().max().clamp_min(1e-30))
      .item<double>();
}

/// Each of `fused`, in float32, is off from `exact` by little more than `plain`, LibTorch's
/// operators in float32, is. Rounding differs by luck too: by four times that, or `least`, a few
/// units; `times` where its numbers have fewer bits. What is zero in truth, a difference of terms
/// of order 1, has no size that an error could be a share of: held to 1e-5.
inline void expect_as_exact(const std::vector<torch::Tensor>& fused,
                            const std::vector<torch::Tensor>& plain,
                            const std::vector<torch::Tensor>& exact, double least = 1e-6,
                            double times = 4) {
  ASSERT_EQ(fused.size(), exact.size());
  for (size_t i = 0; i < exact.size(); ++i) {
    EXPECT_EQ(fused[i].sizes(), exact[i].sizes()) << i;
    if (exact[i].abs().max().item<double>() < 1e-12) {
      EXPECT_LT(fused[i].abs().max().item<double>(), 1e-5) << i;
      continue;
    }
    EXPECT_LT(error(fused[i], exact[i]), std::max(times * error(plain[i], exact[i]), least)) << i;
  }
}

/// How far numbers of bfloat16 are off, as a part of the largest exact one, or of 1.
inline double bfloat16_error(const torch::Tensor& x, const torch::Tensor& exact) {
  const double size = std::max(exact.abs().max().item<double>(), 1.0);
  return (x.to(torch::kDouble) - exact).abs().max().item<double>() / size;
}

/// Of bfloat16: no further off than twice LibTorch's operators, or four units of numbers of size 1.
inline void expect_near_in_bfloat16(const torch::Tensor& fused, const torch::Tensor& plain,
                                    const torch::Tensor& exact, size_t number) {
  EXPECT_LT(bfloat16_error(fused, exact), std::max(2 * bfloat16_error(plain, exact), 4 * 0x1p-8))
      << number;
}

/// LibTorch's number of threads, as it was again at the end.
struct RestoredThreads {
  RestoredThreads() = default;
  ~RestoredThreads() { at::set_num_threads(before); }
  RestoredThreads(const RestoredThreads&) = delete;
  RestoredThreads& operator=(const RestoredThreads&) = delete;

  int before = at::get_num_threads();
};

/// max |a - b| / max(1, max |b|)
inline double difference(const torch::Tensor& a, const torch::Tensor& b) {
  if (a.numel() == 0) return 0;
  const torch::Tensor x = a.detach().to(torch::kDouble), y = b.detach().to(torch::kDouble);
  return (x - y).abs().max().item<double>() / std::max(1.0, y.abs().max().item<double>());
}

inline bool finite(const torch::Tensor& t) { return torch::isfinite(t).all().item<bool>(); }

/// NaN at the first or the last position of the second of three samples reaches no other one,
/// neither its result nor its gradients.
void expect_nan_stays_in_its_sample(const std::string& spec, int64_t length);

/// Highest sum of live tensor bytes above the start while `work` runs, counted at the CPU
/// allocator.
int64_t peak_bytes(const std::function<void()>& work);

/// That of one attend() in float32 over a batch of `batch` full sequences of context.max_length; in
/// training, forward and backward.
int64_t attend_peak(const std::string& spec, const AttentionContext& context, int64_t batch,
                    bool training);

}  // namespace lra
