// Data-parallel training: what processes do with their shares of a batch and with their gradients.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "attention_variants/torch.h"
#include "harness/processes/processes.h"
#include "lra/data/loader.h"

namespace lra {

/// A buffer for the gradients of `parameters`, of one type and on one device, and for a number
/// each.
torch::Tensor flat_buffer(const std::vector<torch::Tensor>& parameters);

/// The gradients of `parameters` become their sums over all processes, in one exchange through
/// `flat`, which flat_buffer() made. Gradients that are not defined count as zero, and stay
/// undefined where no process has one.
void sum_gradients(Processes& processes, const std::vector<torch::Tensor>& parameters,
                   const torch::Tensor& flat);

/// Parameters and buffers become those of the first process.
void broadcast_state(Processes& processes, torch::nn::Module& module);

/// Calls `work` on `parts` contiguous parts of samples `share` of a batch; the ranges it gets count
/// from the share's beginning. Each part's dropouts by own kernels are those of its samples in the
/// whole batch (BatchSlice); LibTorch's own random numbers, as of its dropouts on GPUs and in
/// TorchScript modules, are a stream of the part's own, of `seed`, `step` and the part's first
/// sample. After it LibTorch's CPU generator is where one pass over the whole batch would have left
/// it.
void for_each_micro_batch(Range share, int64_t parts, uint64_t seed, int64_t step,
                          const std::function<void(Range)>& work);

/// How many parts of at most `micro_batch` samples (0 = any number) every process makes of its
/// share of `batch`: the same number in all, since layers may count their calls. Throws UsageError
/// where a process would be left without a sample.
int64_t micro_batch_count(int64_t batch, int64_t micro_batch, int64_t processes);

}  // namespace lra
