// CIFAR-10: the official files, their beginnings, and images that went through JPEG.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "attention_variants/base/files.h"
#include "attention_variants/base/text.h"
#include "lra/data/reading.h"
#include "lra/formats/image_files.h"
#include "lra/tasks/image/cifar.h"

namespace lra::image {
namespace {

namespace fs = std::filesystem;

constexpr size_t kRecord = 1 + 3 * kPixels;  // bytes
constexpr const char* kStems[] = {"data_batch_1", "data_batch_2", "data_batch_3",
                                  "data_batch_4", "data_batch_5", "test_batch"};
constexpr const char* kClasses[] = {"airplane", "automobile", "bird",  "cat",  "deer",
                                    "dog",      "frog",       "horse", "ship", "truck"};
constexpr const char* kLabelOrder = "cifar10_labels_canonical_order.u8";

// MD5 of the six files as cifar-10-binary.tar.gz (MD5 c32a1d4ab5d03f1284b67883e8d87530) holds them.
constexpr const char* kOfficial[] = {
    "5dd7e06a14cb22eb9f671a540d1b7c25", "5ea93a67294ea407fff1d09f752e9692",
    "942cd6a4bcdd0dd3c604fbe906cb4421", "ae636b3ba5c66a11e91e8cb52e771fcb",
    "53f37980c15c3d472c316c40844f3f0d", "803d5f7f4d78ea53de84dbe85f74fb6d"};
// The same of the images at JPEG quality 75, unpacked and written in the official layout.
constexpr const char* kJpeg[] = {
    "5a5142663b2c457eb7edf61944cf14cd", "a03813b579934887e19fffa24f57e096",
    "9338b8beb58f9f053aa7e7f6d2ca26a1", "5d6a4b059305fb3437429da7d5355351",
    "b543e7acd6f6cab339de5ace5ae323ae", "11e2161f06e495577766fe4411c65d23"};

std::string md5(std::string_view bytes) {
  std::string text;
  for (const unsigned char byte : md5_digest(bytes)) text += fmt::format("{:02x}", byte);
  return text;
}

// The number of the file that a name stands for, 0 to 5: "test_batch.bin",
// "test_batch_first1017.bin". -1 for others.
int64_t file_number(const std::string& base) {
  for (int64_t i = 0; i < 6; ++i) {
    const std::string stem = kStems[i];
    if (base == stem + ".bin" || (base.starts_with(stem + "_first") && base.ends_with(".bin"))) {
      return i;
    }
  }
  return -1;
}

void check_label(uint8_t label, const std::string& where) {
  if (label > 9) {
    throw Error(where + ": the label should be from 0 to 9, not " + std::to_string(label));
  }
}

// An image's pixels as Records has them, of kPixels values each of red, green and blue, `step`
// apart.
std::vector<uint8_t> pixels_of(const uint8_t* red, const uint8_t* green, const uint8_t* blue,
                               size_t step, Colours colours) {
  std::vector<uint8_t> pixels;
  if (colours == Colours::grey) {
    for (size_t j = 0; j < kPixels * step; j += step)
      pixels.push_back(grey(red[j], green[j], blue[j]));
    return pixels;
  }
  for (const uint8_t* channel : {red, green, blue}) {
    for (size_t j = 0; j < kPixels * step; j += step) pixels.push_back(channel[j]);
  }
  return pixels;
}

// What one of the six files holds.
struct File {
  std::string md5;
  std::vector<uint8_t> labels, pixels;
};

File parse_file(SourceFile& source, Colours colours) {
  const std::string bytes = source.read_all(kRecord * kRecordsAFile);
  if (bytes.empty() || bytes.size() % kRecord != 0) {
    throw Error(source.where() + " should hold records of " + std::to_string(kRecord) +
                " bytes (a label, 32 x 32 red, green and blue), but has " +
                std::to_string(bytes.size()) + " bytes: it is cut short or holds other images");
  }
  File file{.md5 = md5(bytes), .labels = {}, .pixels = {}};
  const auto* at = reinterpret_cast<const uint8_t*>(bytes.data());
  const size_t count = bytes.size() / kRecord;
  file.pixels.reserve(count * static_cast<size_t>(kPixels * channels_of(colours)));
  for (size_t i = 0; i < count; ++i, at += kRecord) {
    check_label(at[0], source.where() + ": record " + std::to_string(i));
    file.labels.push_back(at[0]);
    const uint8_t *red = at + 1, *green = red + kPixels, *blue = green + kPixels;
    const std::vector<uint8_t> pixels = pixels_of(red, green, blue, 1, colours);
    file.pixels.insert(file.pixels.end(), pixels.begin(), pixels.end());
  }
  return file;
}

// The six files of these MD5 are the official ones, or those made of the images at JPEG quality 75.
std::string label_of(const std::map<int64_t, std::string>& md5_of_file) {
  const auto all = [&](const auto& known) {
    return std::ranges::all_of(md5_of_file,
                               [&](const auto& file) { return file.second == known[file.first]; });
  };
  return all(kOfficial) ? "CIFAR-10" : all(kJpeg) ? "CIFAR-10 (JPEG)" : "";
}

// Images by half (0 = train), class and number, in red, green and blue.
using JpegImages = std::array<std::array<std::map<int64_t, std::vector<uint8_t>>, 10>, 2>;

// Adds an image where `file` is one of {train,test}/<class>/<number>.jpg.
void read_jpeg_file(SourceFile& file, JpegImages& images) {
  const fs::path path = file.name();
  const std::string half = path.parent_path().parent_path().filename().string(),
                    name = path.parent_path().filename().string(), number = path.stem().string();
  const auto known = std::ranges::find(kClasses, name);
  if (known == std::end(kClasses) || (half != "train" && half != "test")) return;
  const int64_t index = whole_number<int64_t>(number).value_or(-1);
  if (index < 0) throw Error(file.where() + ": the name should be a number, as 0012.jpg");
  const Image image = read_jpeg(file.read_all(1 << 20), file.where());
  if (image.width != kSide || image.height != kSide) {
    throw Error(file.where() + " should have 32 x 32 pixels, not " + std::to_string(image.width) +
                " x " + std::to_string(image.height));
  }
  const uint8_t* const first = image.pixels.data();
  std::vector<uint8_t> pixels = pixels_of(first, first + 1, first + 2, 3, Colours::rgb);
  auto& of_class = images[half == "test"][static_cast<size_t>(known - kClasses)];
  if (!of_class.emplace(index, std::move(pixels)).second) {
    throw Error(file.where() + ": there are two images of this class with the number " +
                std::to_string(index));
  }
}

// The images of one half in the order of `labels`, and by number the MD5 of the files, from `file`
// on, that would hold them.
Records ordered(const std::array<std::map<int64_t, std::vector<uint8_t>>, 10>& images,
                std::string_view labels, Colours colours, const std::string& half,
                const std::string& where, int64_t file,
                std::map<int64_t, std::string>& md5_of_file) {
  Records records;
  std::array<int64_t, 10> count{};
  std::string bytes;
  for (size_t i = 0; i < labels.size(); ++i) {
    const auto label = static_cast<uint8_t>(labels[i]);
    const int64_t number = count[label]++;
    const auto it = images[label].find(number);
    if (it == images[label].end()) {
      throw Error(where + " holds no image number " + std::to_string(number) + " of " + half + "/" +
                  kClasses[label]);
    }
    const uint8_t* const red = it->second.data();
    records.add(static_cast<int64_t>(i), label,
                pixels_of(red, red + kPixels, red + 2 * kPixels, 1, colours));
    bytes += labels[i];
    bytes.append(it->second.begin(), it->second.end());
    if ((i + 1) % kRecordsAFile != 0) continue;
    md5_of_file[file++] = md5(bytes);
    bytes.clear();
  }
  for (size_t label = 0; label < images.size(); ++label) {
    if (std::ssize(images[label]) == count[label]) continue;
    throw Error(where + " holds " + std::to_string(images[label].size()) + " images of " + half +
                "/" + kClasses[label] + ", but " + kLabelOrder + " has " +
                std::to_string(count[label]) + " of this class there");
  }
  return records;
}

Cifar from_jpeg(const JpegImages& images, std::string labels, const PrepareOptions& options,
                Colours colours) {
  const std::string where = options.source.string();
  const fs::path beside =
      fs::absolute(options.source / "").lexically_normal().parent_path().parent_path() /
      kLabelOrder;
  if (labels.empty() && fs::exists(beside)) labels = read_file(beside);
  if (labels.empty()) {
    throw Error(where + " holds CIFAR-10 as JPEG files, whose order is in " + kLabelOrder +
                "; put that file beside it, or give the six official .bin files");
  }
  if (labels.size() != kTrainRecords + kRecordsAFile) {
    throw Error(std::string(kLabelOrder) + " should hold 60000 labels, not " +
                std::to_string(labels.size()));
  }
  for (size_t i = 0; i < labels.size(); ++i) {
    check_label(static_cast<uint8_t>(labels[i]),
                std::string(kLabelOrder) + ": record " + std::to_string(i));
  }
  const std::string_view all = labels;
  std::map<int64_t, std::string> md5_of_file;
  Cifar cifar{
      .train =
          ordered(images[0], all.substr(0, kTrainRecords), colours, "train", where, 0, md5_of_file),
      .test = ordered(images[1], all.substr(kTrainRecords), colours, "test", where, 5, md5_of_file),
      .label = label_of(md5_of_file)};
  if (cifar.label.empty()) cifar.label = "CIFAR-10 (JPEG files, not verified)";
  return cifar;
}

Cifar from_files(const std::map<int64_t, File>& files, const PrepareOptions& options,
                 Colours colours) {
  const auto values = static_cast<size_t>(kPixels * channels_of(colours));  // of an image
  for (int64_t i = 0; i < 6; ++i) {
    if (files.contains(i)) continue;
    throw Error(options.source.string() + " holds no " + kStems[i] +
                ".bin; CIFAR-10 is data_batch_1.bin to data_batch_5.bin and test_batch.bin");
  }
  Cifar cifar;
  std::map<int64_t, std::string> md5_of_file;
  size_t images = 0;
  for (const auto& [number, file] : files) {
    Records& records = number < 5 ? cifar.train : cifar.test;
    for (size_t i = 0; i < file.labels.size(); ++i) {
      records.add((number < 5 ? number * kRecordsAFile : 0) + static_cast<int64_t>(i),
                  file.labels[i], std::span(file.pixels).subspan(i * values, values));
    }
    md5_of_file[number] = file.md5;
    images += file.labels.size();
  }
  cifar.label = label_of(md5_of_file);
  if (!cifar.label.empty()) return cifar;
  cifar.label = images < 6 * kRecordsAFile
                    ? "CIFAR-10 (subset of " + std::to_string(images) + " images, not verified)"
                    : "CIFAR-10 (not the official files: other MD5)";
  return cifar;
}

}  // namespace

Cifar read(const PrepareOptions& options, Colours colours) {
  const Source source(options.source);
  std::map<int64_t, File> files;
  JpegImages images;
  bool any_image = false;
  std::string labels;
  source.visit(
      [&](SourceFile& file) {
        const std::string base = file.base();
        const int64_t number = file_number(base);
        if (number >= 0) {
          if (files.contains(number)) {
            throw Error(file.where() + ": the source holds two files " + kStems[number] +
                        "; give the folder of one of them");
          }
          files.emplace(number, parse_file(file, colours));
        } else if (base.ends_with(".jpg")) {
          any_image = true;
          read_jpeg_file(file, images);
        } else if (base == kLabelOrder) {
          labels = file.read_all(1 << 20);
        }
      },
      visit_options(options));
  if (any_image && files.empty()) return from_jpeg(images, labels, options, colours);
  return from_files(files, options, colours);
}

}  // namespace lra::image
