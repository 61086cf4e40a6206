// Which protocols a test of what they compute has to go through.
#pragma once

#include <string>
#include <vector>

#include "lra/config/protocol.h"

namespace lra {

/// The protocol whose models this one has: another where they differ in learning rates and how
/// often they are evaluated alone (Lra2026.IsOtherwiseStrict).
inline std::string with_models_of(const std::string& protocol) {
  return protocol == "lra-2026" ? "lra-strict" : protocol;
}

/// The built-in protocols that have models of their own.
inline std::vector<std::string> protocols_by_what_they_compute() {
  std::vector<std::string> names = protocol_names();
  std::erase_if(names, [](const std::string& name) { return with_models_of(name) != name; });
  return names;
}

/// Of models that are deep: what trains or compares them is among the slow tests.
inline bool of_later_regime(const std::string& protocol) {
  return load_protocol(protocol).regime == kLaterRegime;
}

}  // namespace lra
