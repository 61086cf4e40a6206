// NumPy's array files (.npy): header and raw data, without pickled objects.
// Source: numpy.lib.format.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lra {

struct NpyArray {
  std::string type;            // as NumPy writes it: "<f8", "|u1", "<U14"
  std::vector<int64_t> shape;  // row-major
  std::string_view data;       // within the bytes read

  int64_t items() const;
};

bool is_npy(std::string_view bytes);

/// Reads the header and finds the data; throws Error that begins with `where` where it is no .npy,
/// cut short, column-major, big-endian or of Python objects.
NpyArray read_npy(std::string_view bytes, const std::string& where);

/// The items of an array of text ("<U14", "|S14"), which must be ASCII.
std::vector<std::string> npy_strings(const NpyArray& array, const std::string& where);

}  // namespace lra
