// Calls of own kernels, as LibTorch's observers (ATen/record_function.h) see its own operators.
#pragma once

#include <array>

#include "attention_variants/ops/dispatch.h"
#include "attention_variants/ops/dispatch/work.h"

namespace lra::ops {

/// What an observer that asks for inputs is given: the two numbers of Work.
template <class Call>
std::array<c10::IValue, 2> recorded_work(const Call& call) {
  const Work work = work_of(call);
  return {work.flops, work.bytes};
}

/// Runs the implementation that pick() names. Where it is an own kernel, observers see an operator
/// called `name`, "lra::" and the operator's own; LibTorch's operators are seen by themselves.
template <class Call, size_t n>
typename Call::Result run_recorded(const char* name, const Implementation<Call> (&all)[n],
                                   Kernels asked, const Place& place,
                                   const typename Call::Shape& shape, const Call& call) {
  const Implementation<Call>& picked = pick(all, asked, place, shape);
  if (&picked == &all[n - 1]) return picked.run(call);
  RECORD_FUNCTION(name, recorded_work(call));
  return picked.run(call);
}

}  // namespace lra::ops
