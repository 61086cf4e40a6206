// The random numbers that LRA's released Reformer draws, so that its hashes are the same.
#pragma once

#include <cstdint>

#include "attention_variants/torch.h"

namespace lra::released {

/// The first `count` normal numbers [count], float32, of jax.random.normal(fold_in(PRNGKey(0), 1)),
/// what flax.deprecated's first make_rng() of key 0 gives; but for the last bits, which depend on
/// the inverse error function. Threefry: Salmon et al., "Parallel random numbers: as easy as 1, 2,
/// 3", SC 2011, as JAX pairs its counters by default before 0.5.0.
torch::Tensor jax_normal(int64_t count);

}  // namespace lra::released
