// A grey image as text, to look at in a terminal.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace lra {

/// Grey values from 0 to 255, row by row of `side` (at least 1): a character each, the brighter the
/// denser.
std::string shades(std::span<const uint16_t> values, size_t side);

}  // namespace lra
