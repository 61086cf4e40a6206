// The machine that a record was made on.
#pragma once

#include <cstdint>
#include <string>

#include "attention_variants/base/fields.h"

namespace lra {

struct Machine {
  std::string processor;  // "Intel(R) Xeon(R) ..."
  int64_t cores = 0;      // logical; 0 = unknown
  double memory_gib = 0;  // 0 = unknown
  std::string gpu;        // "" = none
};

/// "Intel Xeon, 2 cores, 8 GiB", or the GPU's name before it.
std::string machine_text(const Machine& machine);

json make_machine(const Machine& machine);
Machine parse_machine(const json& machine);

}  // namespace lra
