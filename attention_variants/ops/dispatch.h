// Which implementation of an operator runs: each of ops/dispatch lists those of one operator, in
// order of preference.
#pragma once

#include <cstddef>
#include <cstdint>

#include "attention_variants/ops/types.h"
#include "attention_variants/torch.h"

namespace lra::ops {

/// Where a call runs, or is accounted for.
struct Place {
  torch::DeviceType device = torch::kCPU;
  torch::ScalarType type = torch::kFloat;
  bool autocast_ok = true;  // off, or to bfloat16
  bool autocast = false;    // on, for code that has not left it

  static Place of(const torch::Tensor& x);
  /// On a CPU, without autocast.
  static Place of_bytes(int64_t element_size);
};

/// Float32 on a CPU, under autocast to bfloat16 too: what the own CPU kernels compute on.
bool is_cpu_float(const Place& place);
/// That, or bfloat16 under autocast: what those of linear layers, gates and heads read.
bool is_cpu_stored(const Place& place);

/// One way to compute a Call (tensors and options), whose Call::Shape is the sizes and options.
template <class Call>
struct Implementation {
  bool (*takes)(const Place&, const typename Call::Shape&);  // null: everything
  typename Call::Result (*run)(const Call&);
  /// Bytes above the inputs without gradients, the result among them; -1: no account.
  int64_t (*bytes)(const typename Call::Shape&) = nullptr;
};

/// The first that takes the call; the last one, LibTorch's operators, where `asked` says so.
template <class Call, size_t n>
const Implementation<Call>& pick(const Implementation<Call> (&all)[n], Kernels asked,
                                 const Place& place, const typename Call::Shape& shape) {
  if (asked == Kernels::fused) {
    for (const Implementation<Call>& one : all) {
      if (one.takes == nullptr || one.takes(place, shape)) return one;
    }
  }
  return all[n - 1];
}

}  // namespace lra::ops
