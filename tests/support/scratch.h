// A folder of one's own for a test, the text of what a call throws, and what a text holds.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "attention_variants/base/error.h"
#include "attention_variants/base/files.h"

namespace lra {

/// A fresh folder, removed with everything in it at the end.
class Scratch {
 public:
  Scratch() {
    std::string name = (std::filesystem::temp_directory_path() / "lra-test-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw Error("cannot make a scratch folder " + name);
    path_ = name;
  }
  ~Scratch() { remove_tree(path_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// The message of what `call` throws, or "(no error)". Errors of another kind than `Expected` go on
/// and fail the test.
template <class Expected = Error, class Call>
std::string error_text(const Call& call) {
  try {
    call();
  } catch (const Expected& error) {
    return error.what();
  }
  return "(no error)";
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace lra
