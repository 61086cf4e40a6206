// Protocols in words: what they follow, where they differ and what they set, by task and variant.
#pragma once

#include <string>

#include "lra/config/protocol.h"

namespace lra {

/// Empty: all tasks, all attentions.
struct ProtocolPart {
  std::string task, attention;
};

/// What a protocol follows, what differs and why, which variant runs for a name, and the settings
/// and options in effect; lines of at most 100 columns.
std::string protocol_words(const Protocol& protocol, const ProtocolPart& part = {});

/// What differs between two protocols: "key: a → b", and the lines that only one of them has.
std::string difference_words(const Protocol& left, const Protocol& right,
                             const ProtocolPart& part = {});

}  // namespace lra
