// Public data sets, which are not part of the repository.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace lra {

/// Where the data set `name` lies: in the folder that LRA_TEST_DATA names. Empty where it is not.
inline std::filesystem::path test_data(const std::string& name) {
  const char* folder = std::getenv("LRA_TEST_DATA");
  if (folder == nullptr || *folder == '\0') return {};
  const std::filesystem::path path = std::filesystem::path(folder) / name;
  return std::filesystem::exists(path) ? path : std::filesystem::path{};
}

/// Why a test of a data set is skipped.
inline std::string no_test_data(const std::string& name) {
  return "set LRA_TEST_DATA to a folder that holds " + name;
}

}  // namespace lra
