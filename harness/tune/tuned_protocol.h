// The protocol that a search leaves: with what was chosen for each attention.
#pragma once

#include <filesystem>

#include "harness/tune/tune_file.h"

namespace lra::tune {

inline constexpr const char* kTunedProtocol = "protocol.json";

/// OUT/protocol.json: the protocol with what was chosen, in the task's entries for the attentions,
/// under a name of its own. Returns its path.
std::filesystem::path write_protocol(const TuneFile& file, const std::filesystem::path& out);

}  // namespace lra::tune
