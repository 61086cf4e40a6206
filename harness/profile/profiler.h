// Measuring one cell of the memory and time tables.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "attention_variants/torch.h"
#include "harness/measure/measure.h"
#include "harness/profile/cell.h"
#include "results/records/profile.h"

namespace lra::profile {

/// Of Profile::method: a GPU's clocks at the end of each pass, [{"mhz", "memory_mhz", "slowed"}].
inline constexpr const char* kGpuClocks = "gpu_clocks";

/// Measures one cell in this process. What cannot run is a record with its status and reason:
/// "oom" beyond `memory_limit` bytes of tensors (0 = none), "unsupported" where the variant refuses
/// the shape, "crash" for other errors. All tokens are real; inputs are standard normal.
/// `processors`: where its threads are pinned, to watch what else runs there; empty = any.
Profile profile_cell(const ProfileCell& cell, torch::Device device, int64_t threads,
                     int64_t memory_limit, const measure::MeasureLimits& limits,
                     const std::vector<int>& processors = {});

/// What profile_cell() measures: one call, over inputs made beforehand. Throws what building the
/// cell throws.
std::function<void()> call_of(const ProfileCell& cell, torch::Device device);

/// The most bytes of tensors that calls of this cell hold, weights, inputs and the optimizer's
/// state included; throws what a call throws.
int64_t peak_bytes_of_call(const ProfileCell& cell, torch::Device device, int64_t memory_limit);

/// The variant's own account of the bytes that a core cell takes; -1 where there is none: on GPUs,
/// since what it counts are the tensors of the paths that run on CPUs, and in bfloat16.
int64_t account_of(const Attention& attention, const ProfileCell& cell, torch::Device device);

torch::Dtype dtype_of(ops::Dtype dtype);

}  // namespace lra::profile
