#include "lra/data/shades.h"

#include <algorithm>
#include <string_view>

namespace lra {

std::string shades(std::span<const uint16_t> values, size_t side) {
  constexpr std::string_view kShades = " .:-=+*#%@";
  std::string text;
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0 && i % side == 0) text += '\n';
    text += kShades[std::min<size_t>(values[i], 255) * kShades.size() / 256];
  }
  return text;
}

}  // namespace lra
