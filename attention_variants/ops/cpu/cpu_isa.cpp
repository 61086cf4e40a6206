#include "attention_variants/ops/cpu_isa.h"

#include "attention_variants/ops/cpu/kernels/kernels.h"

namespace lra::ops {

const char* cpu_isa() { return cpu::kernels().isa; }

}  // namespace lra::ops
