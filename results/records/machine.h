// The machine that a record was made on.
#pragma once

#include <cstdint>
#include <string>

#include "attention_variants/base/fields.h"

namespace lra {

struct Machine {
  std::string processor;        // "Intel(R) Xeon(R) ..."
  std::string processor_model;  // "family 26 model 2 stepping 1", as clouds call several processors
                                // "AMD EPYC"; "" = unknown
  int64_t cores = 0;            // logical; 0 = unknown
  int64_t usable_cores = 0;  // of these, by the process that ran; 0 = unknown: older records give
                             // these as `cores`
  double memory_gib = 0;     // 0 = unknown
  std::string gpu;           // "" = none
  std::string gpu_driver;    // its version; "" = no GPU, or unknown
  std::string huge_pages;    // Linux's setting: "always", "madvise" or "never"; "" = unknown

  /// The cores that the process could use.
  int64_t usable() const { return usable_cores > 0 ? usable_cores : cores; }
};

/// "Intel Xeon, 2 cores, 8 GiB", or the GPU's name before it; "2 of 64 cores" where fewer could be
/// used.
std::string machine_text(const Machine& machine);

json make_machine(const Machine& machine);
Machine parse_machine(const json& machine);

}  // namespace lra
