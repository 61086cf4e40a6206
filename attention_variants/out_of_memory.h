// What tells an error for want of memory from one of the code that met it.
#pragma once

#include <exception>

namespace lra {

/// True for the errors by which LibTorch, CUDA and its libraries report that memory ran out.
bool is_out_of_memory(const std::exception& error);

}  // namespace lra
