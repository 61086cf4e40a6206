#include "attention_variants/base/shell.h"

namespace lra {

std::string shell_quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string shell_word(const std::string& word) {
  constexpr const char* kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:.,/@%";
  return word.empty() || word.find_first_not_of(kPlain) != word.npos ? shell_quoted(word) : word;
}

}  // namespace lra
