// The one tensor format: round trips, and no crash on any damaged file.
#include "lra/formats/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>

#include "attention_variants/base/files.h"
#include "tests/support/scratch.h"

namespace lra {
namespace {

// A safetensors file from a header text and data, for headers that no writer would make.
std::string raw(const std::string& header, const std::string& data = "") {
  const uint64_t length = header.size();
  std::string text(8, '\0');
  std::memcpy(text.data(), &length, 8);
  return text + header + data;
}

class Safetensors : public ::testing::Test {
 protected:
  Scratch scratch_;
  std::filesystem::path path_ = scratch_.path() / "t.safetensors";

  std::string error_of(const std::string& bytes) {
    std::ofstream(path_, std::ios::binary) << bytes;  // unsynced: some tests write thousands
    return error_text([&] { read_tensors(path_); });
  }
};

TEST_F(Safetensors, EveryTypeShapeAndStrideSurvives) {
  TensorFile file;
  for (const auto type :
       {torch::kBool, torch::kUInt8, torch::kUInt16, torch::kInt8, torch::kInt16, torch::kInt32,
        torch::kInt64, torch::kFloat16, torch::kBFloat16, torch::kFloat, torch::kDouble}) {
    file.tensors.emplace_back(std::string("t.") + torch::toString(type),
                              torch::arange(15).remainder(2).reshape({3, 5}).to(type));
  }
  file.tensors.emplace_back("transposed", torch::arange(6.0).reshape({2, 3}).t());
  file.tensors.emplace_back("scalar", torch::tensor(2.5));
  file.tensors.emplace_back("empty", torch::empty({0, 4}));
  file.metadata = {{"step", "7"}, {"ünï", "\"quoted\"\n"}};
  write_tensors(path_, file);
  const TensorFile back = read_tensors(path_);
  ASSERT_EQ(back.tensors.size(), file.tensors.size());
  EXPECT_EQ(back.metadata, file.metadata);
  for (size_t i = 0; i < file.tensors.size(); ++i) {
    EXPECT_EQ(back.tensors[i].first, file.tensors[i].first);
    EXPECT_EQ(back.tensors[i].second.scalar_type(), file.tensors[i].second.scalar_type());
    EXPECT_TRUE(torch::equal(back.tensors[i].second.to(torch::kDouble),
                             file.tensors[i].second.to(torch::kDouble)))
        << file.tensors[i].first;
  }
}

// More elements than are converted at a time; the file is that of the converted tensor.
TEST_F(Safetensors, ATensorMayBeStoredInAnotherType) {
  const torch::Tensor narrow =
                          torch::arange((int64_t{1} << 24) + 3).remainder(251).to(torch::kUInt8),
                      beside = torch::arange(5);
  write_tensors(path_, {.tensors = {{"ids", narrow}, {"beside", beside}},
                        .metadata = {},
                        .stored_as = {{"ids", torch::kUInt16}}});
  const std::filesystem::path whole = scratch_.path() / "whole.safetensors";
  write_tensors(
      whole, {.tensors = {{"ids", narrow.to(torch::kUInt16)}, {"beside", beside}}, .metadata = {}});
  EXPECT_TRUE(read_file(path_) == read_file(whole));
  EXPECT_EQ(read_tensors(path_).at("ids").scalar_type(), torch::kUInt16);
}

TEST_F(Safetensors, TensorsOutliveTheFileTheyCameFrom) {
  write_tensors(path_, {.tensors = {{"a", torch::arange(1000)}}, .metadata = {}});
  torch::Tensor a = read_tensors(path_).at("a");
  std::filesystem::remove(path_);
  EXPECT_TRUE(torch::equal(a, torch::arange(1000)));
}

// What Python's safetensors.numpy.save({"a": arange(3, int16), "b": ones((2, 2), bool)}) wrote.
TEST_F(Safetensors, ReadsWhatPythonWrites) {
  const std::string header =
      R"({"a":{"dtype":"I16","shape":[3],"data_offsets":[0,6]},"b":{"dtype":"BOOL","shape":[2,2],"data_offsets":[6,10]}})";
  write_file(path_, raw(header + "     ", std::string("\0\0\1\0\2\0\1\1\1\1", 10)));
  const TensorFile file = read_tensors(path_);
  EXPECT_TRUE(torch::equal(file.at("a"), torch::arange(3, torch::kInt16)));
  EXPECT_TRUE(torch::equal(file.at("b"), torch::ones({2, 2}, torch::kBool)));
}

TEST_F(Safetensors, UnalignedTensorsAreRead) {
  const std::string header =
      R"({"pad":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"x":{"dtype":"I64","shape":[1],"data_offsets":[1,9]}})";
  write_file(path_, raw(header, std::string("\7\5\0\0\0\0\0\0\0", 9)));
  EXPECT_EQ(read_tensors(path_).at("x").item<int64_t>(), 5);
}

TEST_F(Safetensors, EveryTruncationIsAnErrorThatNamesTheFile) {
  write_tensors(path_, {.tensors = {{"a", torch::arange(4)}, {"b", torch::ones({3})}},
                        .metadata = {{"k", "v"}}});
  const std::string whole = read_file(path_);
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(error_of(whole.substr(0, size)).find("t.safetensors"), std::string::npos) << size;
  }
  EXPECT_NE(error_of(whole + "x").find("bytes of data, but its tensors take"), std::string::npos);
}

// Flipping any bit either gives an error or a file whose every tensor can be read.
TEST_F(Safetensors, NoFlippedBitCrashes) {
  write_tensors(path_, {.tensors = {{"a", torch::arange(4)}, {"b", torch::ones({3}, torch::kBool)}},
                        .metadata = {{"k", "v"}}});
  const std::string whole = read_file(path_);
  int refused = 0;
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    std::ofstream(path_, std::ios::binary) << damaged;
    try {
      for (const auto& [name, tensor] : read_tensors(path_).tensors)
        tensor.to(torch::kDouble).sum();
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 200);
}

TEST_F(Safetensors, HostileHeadersAreRefusedByName) {
  const auto tensor = [](const std::string& shape, const std::string& offsets,
                         const std::string& type = "U8") {
    return raw(R"({"x":{"dtype":")" + type + R"(","shape":)" + shape + R"(,"data_offsets":)" +
                   offsets + "}}",
               "0123");
  };
  const std::pair<std::string, const char*> cases[] = {
      {raw("[1]"), "header should be a JSON object"},
      {raw("{\"x\":"), "not valid JSON"},
      {raw(R"({"x":1})", "0123"), "tensor 'x' should be a JSON object"},
      {tensor("[4]", "[0,5]"), "truncated or corrupted"},
      {tensor("[4]", "[2,1]"), "should be [begin, end]"},
      {tensor("[4]", "[0]"), "should be [begin, end]"},
      {tensor("[-4]", "[0,4]"), "integers of at least 0"},
      {tensor("[4.5]", "[0,4]"), "integers of at least 0"},
      {tensor("[3]", "[0,4]"), "takes 3 bytes, not 4"},
      {tensor("[3]", "[0,3]"), "its tensors take 3"},
      {tensor("[3]", "[1,4]"), "should begin at byte 0"},
      {tensor("[4]", "[0,4]", "F8"), "known: BOOL, U8"},
      {tensor("[4]", "[0,4]", "BOOL"), "bytes other than 0 and 1"},
      {tensor("[4294967296,4294967296]", "[0,4]"), "too large"},
      {tensor("[0,9223372036854775807,9223372036854775807]", "[0,0]"), "too large"},
      {raw(R"({"x":{"shape":[4],"data_offsets":[0,4]}})", "0123"), "no \"dtype\""},
      {raw(R"({"x":{"dtype":"U8","data_offsets":[0,4]}})", "0123"), "no \"shape\""},
      {raw(R"({"x":{"dtype":"U8","shape":[4],"data_offsets":[0,4],"dtpye":1}})", "0123"),
       "unknown key 'dtpye'"},
      {raw(R"({"x":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"x":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
           "0123"),
       "key 'x' stands twice"},
      {raw(R"({"x":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"y":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
           "0123"),
       "should begin at byte 4"},
      {raw(R"({"__metadata__":{"k":1}})"), "should be a string"},
      {raw(R"({"x":1e999})"), "not valid JSON: number overflow"},
      {raw(R"({"a\u001b\n":1})"), "tensor 'a\\x1b\\n' should be a JSON object"},
      {raw("{\"x\":" + std::string(100000, '[')), "more than 64 deep"},
      {std::string(8, '\xff') + "{}", "no safetensors file"},
  };
  for (const auto& [bytes, expected] : cases) {
    EXPECT_NE(error_of(bytes).find(expected), std::string::npos)
        << "expected: " << expected << "\ngot: " << error_of(bytes);
  }
}

TEST_F(Safetensors, AMissingTensorIsNamedWithThoseThereAre) {
  write_tensors(path_, {.tensors = {{"query", torch::ones(1)}}, .metadata = {}});
  EXPECT_EQ(error_text([&] { read_tensors(path_).at("qurey"); }),
            "there is no tensor 'qurey'; the file holds: query");
}

TEST_F(Safetensors, RefusesToWriteNamesTwiceOrUnknownTypes) {
  const torch::Tensor a = torch::ones(1);
  EXPECT_NE(error_text([&] {
              write_tensors(path_, {{{"a", a}, {"a", a}}, {}});
            }).find("used twice"),
            std::string::npos);
  EXPECT_NE(error_text([&] {
              write_tensors(path_, {{{"a", a.to(torch::kComplexFloat)}}, {}});
            }).find("ComplexFloat"),
            std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

}  // namespace
}  // namespace lra
