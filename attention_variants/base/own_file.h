// Reading what the program itself has written: what is wrong there is no error of the command.
#pragma once

#include <string>

#include "attention_variants/base/fields.h"

namespace lra {

/// Calls what reads such a file; a UsageError of its becomes an Error, which begins with the file's
/// name where one is given.
template <class Read>
auto read_own(Read read, const std::string& file = "") -> decltype(read()) {
  try {
    return read();
  } catch (const UsageError& error) {
    throw Error((file.empty() ? "" : file + ": ") + error.what());
  }
}

/// The text under a key of a JSON object, "" where there is none; throws Error, "<where>: <key>
/// should be a string, not 3", where it is no text.
std::string text_under(const json& object, const std::string& key, const std::string& where);

}  // namespace lra
