// Words of a shell's command line.
#pragma once

#include <string>

namespace lra {

/// Any text as one word of bash, in quotes.
std::string shell_quoted(const std::string& word);

/// Likewise, without quotes where it needs none.
std::string shell_word(const std::string& word);

}  // namespace lra
