#include "lra/formats/npy.h"

#include <fmt/format.h>

#include <algorithm>

#include "attention_variants/base/error.h"
#include "attention_variants/base/text.h"

namespace lra {
namespace {

constexpr int64_t kMost = int64_t{1} << 40;  // items
constexpr std::string_view kMagic = "\x93NUMPY";

// What follows `key` in the header, which is a Python dict on one line.
std::string_view after(std::string_view header, std::string_view key, const std::string& where) {
  const std::string quoted = fmt::format("'{}':", key);
  const size_t at = header.find(quoted);
  if (at == std::string_view::npos)
    throw Error(fmt::format("{}: the header of the .npy has no '{}'", where, key));
  header.remove_prefix(at + quoted.size());
  header.remove_prefix(std::min(header.find_first_not_of(' '), header.size()));
  return header;
}

int64_t number(std::string_view text, const std::string& where) {
  const int64_t value = whole_number<int64_t>(text).value_or(-1);
  if (value < 0 || value > kMost)
    throw Error(where + ": '" + printable(text, 40) + "' is no size of an .npy");
  return value;
}

int64_t item_size(const std::string& type, const std::string& where) {
  const int64_t count = number(std::string_view(type).substr(2), where);
  // Items of no bytes would let a file of none hold any number of them.
  if (count < 1 || count > (1 << 20))
    throw Error(where +
                ": the items of an .npy should have from 1 to 1048576 bytes or characters, not " +
                std::to_string(count));
  return type[1] == 'U' ? 4 * count : count;
}

}  // namespace

int64_t NpyArray::items() const {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

bool is_npy(std::string_view bytes) { return bytes.starts_with(kMagic); }

NpyArray read_npy(std::string_view bytes, const std::string& where) {
  if (!is_npy(bytes)) throw Error(where + " is no .npy: it does not begin with \\x93NUMPY");
  const auto byte = [&](size_t i) {
    return i < bytes.size() ? static_cast<uint8_t>(bytes[i]) : size_t{0};
  };
  const bool long_header = byte(6) > 1;  // versions 2 and 3
  const size_t begin = long_header ? 12 : 10;
  size_t length = byte(8) | byte(9) << 8;
  if (long_header) length |= byte(10) << 16 | byte(11) << 24;
  if (begin + length > bytes.size()) throw Error(where + ": the .npy is cut short");
  const std::string_view header = bytes.substr(begin, length);

  NpyArray array;
  std::string_view type = after(header, "descr", where);
  const size_t quote = type.find('\'', 1);
  if (type.empty() || type[0] != '\'' || quote == std::string_view::npos || quote < 4)
    throw Error(where + ": an .npy of records is not read");
  array.type = type.substr(1, quote - 1);
  if (array.type[1] == 'O') throw Error(where + ": an .npy of Python objects is not read");
  if (array.type[0] == '>') throw Error(where + ": a big-endian .npy is not read");
  if (!after(header, "fortran_order", where).starts_with("False"))
    throw Error(where + ": a column-major .npy is not read");
  std::string_view shape = after(header, "shape", where);
  const size_t close = shape.find(')');
  if (!shape.starts_with('(') || close == std::string_view::npos)
    throw Error(where + ": the header of the .npy has no shape");
  shape = shape.substr(1, close - 1);
  int64_t items = 1;
  while (!shape.empty()) {
    const std::string_view size = shape.substr(0, shape.find(','));
    shape.remove_prefix(std::min(size.size() + 1, shape.size()));
    shape.remove_prefix(std::min(shape.find_first_not_of(' '), shape.size()));
    array.shape.push_back(number(size, where));
    if (array.shape.back() > 0 && items > kMost / array.shape.back())
      throw Error(where + ": the .npy is too large");
    items *= array.shape.back();
  }
  array.data = bytes.substr(begin + length);
  const auto expected = static_cast<size_t>(items * item_size(array.type, where));
  if (array.data.size() != expected) {
    throw Error(where + ": the .npy should hold " + std::to_string(expected) + " bytes, not " +
                std::to_string(array.data.size()));
  }
  return array;
}

std::vector<std::string> npy_strings(const NpyArray& array, const std::string& where) {
  const bool wide = array.type[1] == 'U';
  if (!wide && array.type[1] != 'S')
    throw Error(where + ": the .npy should hold text, not '" + printable(array.type, 40) + "'");
  const size_t unit = wide ? 4 : 1;
  const auto size = static_cast<size_t>(item_size(array.type, where));
  std::vector<std::string> result;
  for (size_t i = 0; i < static_cast<size_t>(array.items()); ++i) {
    std::string text;
    for (size_t j = 0; j < size; j += unit) {
      const std::string_view character = array.data.substr(i * size + j, unit);
      if (character.find_first_not_of('\0') == std::string_view::npos) break;  // padding
      if (static_cast<uint8_t>(character[0]) > 127 ||
          character.find_first_not_of('\0', 1) != std::string_view::npos)
        throw Error(where + ": the text in the .npy should be ASCII");
      text += character[0];
    }
    result.push_back(std::move(text));
  }
  return result;
}

}  // namespace lra
