// Which protocols a test of what they compute has to go through.
#pragma once

#include <string>
#include <vector>

#include "lra/config/protocol.h"

namespace lra {

/// The built-in protocols, but for one that differs from another in learning rates and how often it
/// is evaluated alone: Lra2026.IsOtherwiseStrict.
inline std::vector<std::string> protocols_by_what_they_compute() {
  std::vector<std::string> names = protocol_names();
  std::erase(names, "lra-2026");
  return names;
}

}  // namespace lra
