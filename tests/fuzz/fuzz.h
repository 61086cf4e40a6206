// What the fuzzers of the readers share. Each is one LLVMFuzzerTestOneInput(), built by clang with
// libFuzzer (https://llvm.org/docs/LibFuzzer.html), AddressSanitizer and
// UndefinedBehaviorSanitizer; see tests/fuzz/run.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "attention_variants/base/error.h"
#include "attention_variants/base/text.h"
#include "tests/support/scratch.h"

namespace lra::fuzz {

/// Ends the fuzzer, which then keeps the input, unless `holds`.
inline void require(bool holds, std::string_view what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %.*s\n", static_cast<int>(what.size()), what.data());
  std::abort();
}

/// True where `read` succeeds. Bad input may throw Error, of one short printable line, and nothing
/// else: another exception goes through and ends the fuzzer.
template <class Read>
bool accepted(Read read) {
  try {
    read();
    return true;
  } catch (const Error& error) {
    const std::string_view message = error.what();
    require(!message.empty() && message.size() < 2000, "a message is short");
    require(printable(message) == message, message);
    return false;
  }
}

inline std::string_view text_of(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// A folder of this process's own under $TMPDIR, which should be in memory.
inline const std::filesystem::path& folder() {
  static const Scratch scratch;
  return scratch.path();
}

/// A file in folder(). Unlike write_file() it does not sync.
inline std::filesystem::path write(const std::string& name, std::string_view content) {
  const std::filesystem::path path = folder() / name;
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

}  // namespace lra::fuzz
