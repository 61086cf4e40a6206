// The protocol that a search leaves: with what was chosen for each attention.
#pragma once

#include <filesystem>

#include "harness/tune/tune_file.h"

namespace lra::tune {

inline constexpr const char* kTunedProtocol = "protocol.json";

struct TunedProtocol {
  std::filesystem::path path;
  std::filesystem::path earlier;  // where one with other values is now; empty: there was none
};

/// OUT/protocol.json: the protocol with what was chosen, in the task's entries for the attentions,
/// under a name of its own, which its values decide.
TunedProtocol write_protocol(const TuneFile& file, const std::filesystem::path& out);

}  // namespace lra::tune
