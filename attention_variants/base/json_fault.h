// What a JSON text may not be though its grammar allows it.
#pragma once

#include <string>
#include <string_view>

namespace lra {

struct JsonFault {
  enum class Kind { none, too_deep, key_twice } kind = Kind::none;
  std::string key;  // that stands twice
};

/// The first such fault of a text: nested deeper than `most_depth`, which would overflow the stack
/// where it is printed, or a key twice in one object, of which a parser keeps one without a word.
/// None where the text is malformed before that: parsing it says so. Takes a time that is linear in
/// the text; nlohmann's parser with a callback is quadratic in the length of an array of objects.
JsonFault json_fault(std::string_view text, int most_depth);

}  // namespace lra
