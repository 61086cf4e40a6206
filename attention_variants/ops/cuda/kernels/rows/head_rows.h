// Heads [B,H,N,d] in global memory, and how rows of them come into shared memory.
#pragma once

#include <cstdint>

namespace lra::ops::cuda {

/// A tensor [B,H,N,d] whose rows are contiguous; strides in elements.
template <class Pointer>
struct HeadsOf {
  Pointer data;
  int64_t batch, head, row;
};
using Heads = HeadsOf<const void*>;
using MutableHeads = HeadsOf<void*>;

}  // namespace lra::ops::cuda
