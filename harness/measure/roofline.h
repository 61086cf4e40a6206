// What this machine reaches at best, measured: the two lines of a roofline (Williams et al. 2009).
#pragma once

#include "attention_variants/torch.h"
#include "results/records/profile.h"

namespace lra::measure {

/// The fastest of several large matrix products (n x n x n by LibTorch, n = 2048 on a CPU and
/// 4096 on a GPU, GFLOP/s; on a CPU also of linear layers by the own kernel, in float32 or
/// bfloat16) and copies (512 MiB to 512 MiB, less where `memory_limit` bytes are little; bytes read
/// and written) with LibTorch's threads as they are set. About two seconds on a small machine;
/// where a cell is given less than a second, smaller ones (1024, 64 MiB) for as long, and so a
/// rougher estimate.
Roofline measure_roofline(torch::Device device, torch::Dtype dtype, int64_t memory_limit,
                          double seconds);

/// The least time that so much work takes on a machine of this roofline, ms: of its floating-point
/// operations or its bytes, whichever takes longer.
double least_ms(double flops, double bytes, const Roofline& roofline);

}  // namespace lra::measure
