// What LibTorch's oneDNN multiplies, for the code that packs its operands.
#pragma once

#include <cstdint>

#include "attention_variants/ops/cpu/kernels/gemm/gemm.h"

namespace lra::ops::cpu::onednn {

/// False where LibTorch was built without, or told to do without.
bool multiplies_bfloat16();

/// Whether it multiplies them by AMX.
bool has_tiles();

/// c [m,n] = a b, of bfloat16 numbers, two in an element: a [m,k/2], neighbours of a row, b
/// [k/2,n], neighbours of a column.
void multiply_bfloat16(int64_t m, int64_t n, int64_t k, ConstMatrix a, ConstMatrix b, Matrix c);

/// Gives this thread's tile registers back.
void release();

}  // namespace lra::ops::cpu::onednn
