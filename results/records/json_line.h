// JSON on one line, and in messages.
#pragma once

#include <string>

#include "attention_variants/base/fields.h"

namespace lra {

/// Any value as one line of ASCII, whatever bytes it holds; and the same for a message: at most 60
/// letters, "an array", "an object".
std::string json_line(const json& value);
std::string abbreviated(const json& value);

/// Any value as JSON over several lines, for people too: controls, and those of the direction of
/// writing, stand as "\u202e".
std::string json_text(const json& value);

}  // namespace lra
