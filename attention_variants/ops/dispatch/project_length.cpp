#include "attention_variants/ops/project_length.h"

#include "attention_variants/ops/cpu/operators.h"
#include "attention_variants/ops/dispatch/recorded.h"
#include "attention_variants/ops/reference/operators.h"

namespace lra::ops {
namespace {

constexpr Implementation<ProjectLengthCall> kProjectLength[] = {
    {cpu::takes, cpu::run, cpu::bytes}, {nullptr, reference::run, reference::bytes}};

}  // namespace

torch::Tensor project_length(Kernels asked, const ProjectLengthCall& call) {
  return run_recorded("lra::project_length", kProjectLength, asked, Place::of(call.x), call.shape(),
                      call);
}

int64_t project_length_bytes(Kernels asked, const ProjectLengthShape& shape) {
  return pick(kProjectLength, asked, Place::of_bytes(shape.element_size), shape).bytes(shape);
}

}  // namespace lra::ops
