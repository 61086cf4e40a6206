// NumPy's array files, and the message of each that is not read.
#include "lra/formats/npy.h"

#include <gtest/gtest.h>

#include "tests/support/scratch.h"

namespace lra {
namespace {

std::string npy(const std::string& header, const std::string& data, char version = 1) {
  std::string bytes = "\x93NUMPY";
  bytes += version;
  bytes += '\0';
  bytes += static_cast<char>(header.size());
  bytes.append(version > 1 ? 3 : 1, '\0');
  return bytes + header + data;
}

std::string header(const std::string& type, const std::string& shape,
                   const std::string& fortran = "False") {
  return "{'descr': '" + type + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }\n";
}

std::string message(const std::string& bytes) {
  return error_text([&] { read_npy(bytes, "x.npy"); });
}

TEST(Npy, HeadersOfAllVersions) {
  for (const char version : {1, 2, 3}) {
    const std::string bytes = npy(header("|u1", "(2, 3)"), "abcdef", version);
    const NpyArray array = read_npy(bytes, "x.npy");
    EXPECT_EQ(array.type, "|u1");
    EXPECT_EQ(array.shape, (std::vector<int64_t>{2, 3}));
    EXPECT_EQ(array.items(), 6);
    EXPECT_EQ(array.data, "abcdef");
  }
  EXPECT_EQ(read_npy(npy(header("<f8", "()"), "12345678"), "x.npy").items(), 1);
  EXPECT_EQ(read_npy(npy(header("<i8", "(1,)"), "12345678"), "x.npy").shape.size(), 1u);
}

TEST(Npy, TextOfOneAndFourBytes) {
  const auto texts = [](const std::string& bytes) {
    return npy_strings(read_npy(bytes, "x.npy"), "x.npy");
  };
  EXPECT_EQ(texts(npy(header("|S3", "(2,)"), std::string("ab\0cde", 6))),
            (std::vector<std::string>{"ab", "cde"}));
  EXPECT_EQ(texts(npy(header("<U2", "(1,)"), std::string("a\0\0\0\0\0\0\0", 8))),
            (std::vector<std::string>{"a"}));
  EXPECT_EQ(error_text([&] { texts(npy(header("<U1", "(1,)"), std::string("\xe9\0\0\0", 4))); }),
            "x.npy: the text in the .npy should be ASCII");
  EXPECT_EQ(error_text([&] { texts(npy(header("<f4", "(1,)"), "1234")); }),
            "x.npy: the .npy should hold text, not '<f4'");
}

TEST(Npy, WhatIsNotReadIsNamed) {
  EXPECT_EQ(message("text"), "x.npy is no .npy: it does not begin with \\x93NUMPY");
  EXPECT_EQ(message("\x93NUMPY"), "x.npy: the .npy is cut short");
  EXPECT_EQ(message(npy(header("|u1", "(2, 3)"), "abc")),
            "x.npy: the .npy should hold 6 bytes, not 3");
  EXPECT_EQ(message(npy(header("|O8", "(1,)"), "")),
            "x.npy: an .npy of Python objects is not read");
  EXPECT_EQ(message(npy(header(">f4", "(1,)"), "1234")), "x.npy: a big-endian .npy is not read");
  EXPECT_EQ(message(npy(header("<f4", "(1,)", "True"), "1234")),
            "x.npy: a column-major .npy is not read");
  EXPECT_EQ(message(npy("{'descr': [('a', '<f4')]}", "")), "x.npy: an .npy of records is not read");
  EXPECT_EQ(message(npy("{}", "")), "x.npy: the header of the .npy has no 'descr'");
  EXPECT_EQ(message(npy(header("<fx", "(1,)"), "")), "x.npy: 'x' is no size of an .npy");
  EXPECT_EQ(message(npy(header("|u1", "(-1,)"), "")), "x.npy: '-1' is no size of an .npy");
  // Else a file of no data could hold any number of items.
  EXPECT_EQ(message(npy(header("<U0", "(1099511627776,)"), "")),
            "x.npy: the items of an .npy should have from 1 to 1048576 bytes or characters, not 0");
  EXPECT_EQ(message(npy(header("|S1048577", "(1,)"), "")),
            "x.npy: the items of an .npy should have from 1 to 1048576 bytes or characters, not "
            "1048577");
  EXPECT_EQ(message(npy(header("|u1", "(1099511627776, 1099511627776)"), "")),
            "x.npy: the .npy is too large");
}

}  // namespace
}  // namespace lra
