// Writes the inputs that the fuzzers begin with: seeds DIR makes DIR/<fuzzer>/<number>.
#include <iostream>
#include <map>
#include <numeric>

#include "lra/data/prepared.h"
#include "lra/formats/image_files.h"
#include "lra/formats/safetensors.h"
#include "lra/tasks/listops/listops.h"
#include "tests/support/archives.h"
#include "tests/support/jpegs.h"
#include "tests/support/scratch.h"

namespace lra {
namespace {

namespace fs = std::filesystem;
using namespace std::string_literals;

Image gradient(int64_t width, int64_t height, int64_t channels) {
  Image image(width, height, channels);
  std::iota(image.pixels.begin(), image.pixels.end(), uint8_t{0});
  return image;
}

std::string npy(const std::string& type, const std::string& shape, const std::string& data) {
  std::string header =
      "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }";
  header.resize(118, ' ');
  return "\x93NUMPY\x01\x00\x76\x00"s + header + data;
}

std::string listops() {
  std::string text = "Source\tTarget\r\n";
  for (uint64_t stream = 0; stream < 6; ++stream) {
    CounterRandom random(1, stream);
    std::vector<uint16_t> ids;
    if (!listops::draw_tree(random, {.max_depth = 4, .min_length = 0, .max_length = 60}, ids))
      continue;
    text += listops::to_source(ids) + "\t" + std::to_string(listops::evaluate(ids)) + "\r\n";
  }
  return text;
}

// A list of Pathfinder's and its image.
std::string pathfinder() {
  const std::string part = "lra_release/pathfinder32/curv_contour_length_14/";
  std::string text = "\2"s + part + "metadata/0.npy\0"s;
  for (int i = 0; i < 10; ++i) {
    const std::string number = std::to_string(i);
    text += "imgs/0 sample_" + number + ".png " + number + " 1 1.0 14 4 2 0.5 1 1\n";
  }
  // Without the byte that separates files.
  std::string png = write_png(Image(32, 32, 1));
  std::ranges::replace(png, '\xff', '\0');
  for (int i = 0; i < 10; ++i)
    text += "\xff" + part + "imgs/0/sample_" + std::to_string(i) + ".png\0"s + (i < 8 ? "" : png);
  return text;
}

std::string imdb() {
  std::string text = "\0"s;
  for (const char* folder : {"train/neg/0_3", "train/pos/1_9", "train/neg/2_1", "test/neg/0_2",
                             "test/pos/12_10", "train/unsup/5_0"}) {
    text += "aclImdb/"s + folder + ".txt\0A film<br />"s + "\xff";
  }
  return text;
}

// The bytes that `write` puts into a file of this name.
template <class Write>
std::string bytes_of(const std::string& name, Write write) {
  const Scratch scratch;
  write(scratch.path() / name);
  return read_file(scratch.path() / name);
}

std::map<std::string, std::vector<std::string>> seeds() {
  std::map<std::string, std::vector<std::string>> all;
  for (const int64_t channels : {1, 3}) {
    const Image image = gradient(9, 7, channels);
    for (const char first : {'\0', '\1'}) all["png"].push_back(first + write_png(image));
    for (const JpegKind kind : {JpegKind::kBaseline, JpegKind::kProgressive})
      all["jpeg"].push_back(write_jpeg(image, kind));
  }
  all["npy"] = {npy("<U2", "(2, 1)", "a\0\0\0b\0\0\0c\0\0\0\0\0\0\0"s),
                npy("|S3", "(2,)", "ab\0cde"s), npy("<f8", "()", "12345678")};
  const std::vector<ArchiveEntry> entries = {{.name = "a/b.txt", .content = "one\r\ntwo"},
                                             {.name = "./c", .content = random_text(2000)},
                                             {.name = "empty", .content = ""}};
  for (const char* name : {"a.tar", "a.tar.gz", "a.tar.xz", "a.zip"}) {
    const std::string bytes =
        bytes_of(name, [&](const fs::path& path) { write_archive(path, entries); });
    all["archive"].push_back("\0"s + bytes);
    if (name == "a.tar"s) {
      all["archive"].push_back("\1" + bytes);
      all["archive"].push_back("\2" + bytes);
    }
  }
  const std::string link = bytes_of("a.tar", [](const fs::path& path) {
    write_archive(path, {{.name = "x", .link = "../y"}, {.name = "z", .link = "x", .hard = true}});
  });
  all["archive"].push_back("\1" + link);
  all["listops_tsv"] = {listops(), "Source\tTarget\n7\t7\n", "[MED 1 2 [MAX 3 4 ] ]"};
  all["retrieval_tsv"] = {"1.0\tP00-1001\tW01-0102\tb'one \\xe2'\tb\"it's\"\n0\ta\tb\tx\ty\r\n",
                          "0.0\ta\tb\n1\tb\ta\n\0a\talpha\nb\tbe\tta\n"s};
  std::string record(3073, '\x40');
  record[0] = 9;
  all["cifar"] = {record, record + record};
  all["source_names"] = {imdb(), pathfinder(),
                         "\1cifar/train/cat/0000.jpg\0"s + write_jpeg(gradient(32, 32, 3)),
                         "\1a/data_batch_1.bin\0"s + "\xff" + "b/test_batch_first9.bin\0"s};
  SplitWriter writer;
  writer.tokens(std::vector<uint16_t>{1, 2, 3});
  writer.label(2);
  writer.tokens(std::vector<uint16_t>{4});
  writer.label(0);
  all["safetensors"] = {bytes_of("a", [&](const fs::path& path) { writer.write(path, 16); }),
                        bytes_of("a", [&](const fs::path& path) { writer.write(path, 300); }),
                        bytes_of("a", [](const fs::path& path) {
                          write_tensors(path,
                                        {.tensors = {{"b", torch::ones({2, 1}, torch::kBool)},
                                                     {"f", torch::zeros({0, 3}, torch::kFloat16)},
                                                     {"d", torch::arange(3, torch::kDouble)}},
                                         .metadata = {{"key", "value"}}});
                        })};
  Manifest manifest;
  manifest.task = "toy";
  manifest.source = "generated";
  manifest.options = {{"seed", 0}, {"train", 2}};
  for (const char* split : kSplits) {
    manifest.splits[split] = {.name = split + ".safetensors"s, .sha256 = sha256(split), .count = 2};
  }
  all["manifest"] = {manifest.to_json().dump(), manifest.to_json().dump(2)};
  return all;
}

}  // namespace
}  // namespace lra

int main(int count, char** arguments) {
  if (count != 2) {
    std::cerr << "usage: seeds DIR\n";
    return 2;
  }
  for (const auto& [fuzzer, inputs] : lra::seeds()) {
    const std::filesystem::path folder = std::filesystem::path(arguments[1]) / fuzzer;
    std::filesystem::create_directories(folder);
    for (size_t i = 0; i < inputs.size(); ++i)
      std::ofstream(folder / std::to_string(i), std::ios::binary) << inputs[i];
  }
}
