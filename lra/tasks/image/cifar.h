// CIFAR-10 (Krizhevsky 2009) as LRA's task "image": 32 x 32 grey pixels, row by row, 10 classes. Or
// with its colours, as S4's sCIFAR: three values a pixel.
//
// Read from the official binary version (data_batch_1.bin to data_batch_5.bin, test_batch.bin: a
// label byte and 1024 red, 1024 green and 1024 blue bytes a record, 10,000 records a file).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lra/data/task.h"

namespace lra::image {

inline constexpr int64_t kSide = 32;
inline constexpr int64_t kPixels = kSide * kSide;
inline constexpr int64_t kRecordsAFile = 10'000;
inline constexpr int64_t kTrainRecords = 5 * kRecordsAFile;

/// LRA's grey value, in float32 and in this order: each channel times 1/255; 0.2989 red + 0.5870
/// green + 0.1140 blue from left to right; times 255.5; truncated.
uint8_t grey(uint8_t red, uint8_t green, uint8_t blue);

/// The indices 0 to 49,999 of the training records (file by file) in the order that TensorFlow
/// Datasets, and so LRA, has them in: ascending by the MD5 of "train" and the index. The first
/// 45,000 are LRA's training set, the others its dev set.
std::vector<int64_t> record_order();

/// MD5 of some bytes. Throws Error where OpenSSL has none, as under FIPS.
std::array<unsigned char, 16> md5_digest(std::string_view bytes);

struct Records {
  std::vector<int64_t> index;   // ascending; its place in the official files
  std::vector<uint8_t> label;   // 0 to 9
  std::vector<uint8_t> pixels;  // grey, kPixels an image; or as many of red, of green and of blue
  void add(int64_t official_index, uint8_t image_label, std::span<const uint8_t> image_pixels);
};

struct Cifar {
  Records train, test;
  /// What the files are found to be: "CIFAR-10" only where all six have the MD5 of the official
  /// ones, "CIFAR-10 (JPEG)" where they have that of the images at JPEG quality 75, also as JPEG
  /// files, or what else.
  std::string label;
};

/// Reads `options.source`, a folder or an archive, in one of three forms:
///  - the six official files;
///  - the first records of each, as data_batch_1_first1017.bin: a subset;
///  - images that went through JPEG, {train,test}/<class>/<number>.jpg, numbered by class in the
///    official order; the order of all labels is taken from cifar10_labels_canonical_order.u8
///    (60,000 bytes), which lies beside the archive or folder.
/// Throws Error that names the file and what is wrong.
Cifar read(const PrepareOptions& options, Colours colours = Colours::grey);

/// An image as rows of characters, darkest to lightest.
std::string render(std::span<const uint16_t> ids);

}  // namespace lra::image
