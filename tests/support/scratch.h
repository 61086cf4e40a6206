// A folder of one's own for a test, and the text of what a call throws.
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

/// The message of the Error that `call` throws, or "(no error)".
template <class Call>
std::string error_text(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "(no error)";
}

}  // namespace lra
