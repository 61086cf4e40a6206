// The task `image`: grey values, LRA's split, registration. See cifar.h.
#include "lra/tasks/image/cifar.h"

#include <openssl/evp.h>

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "lra/data/reading.h"
#include "lra/data/shades.h"

namespace lra::image {
namespace {

constexpr int64_t kTrainSize = 45'000;  // of the 50,000; the others are dev

struct CifarSettings {
  Colours colours = Colours::grey;

  template <class Fields>
  void fields(Fields& f) {
    f("colours", colours);
  }
};

// The products of one channel. Tables, because the sums of grey() then hold no product that a
// compiler could fuse with an addition: the same bits on every machine.
std::array<float, 256> products(float weight) {
  std::array<float, 256> table{};
  constexpr float kScale = 1.0f / 255.0f;
  for (int value = 0; value < 256; ++value) {
    const float scaled = static_cast<float>(value) * kScale;
    table[static_cast<size_t>(value)] = weight * scaled;
  }
  return table;
}

// Of the records in this order, those that are there, at most `limit` of them, or all where it is
// negative.
SplitWriter take(const Records& records, std::span<const int64_t> order, int64_t limit,
                 const std::string& split, const PrepareOptions& options, Colours colours) {
  const auto channels = static_cast<size_t>(channels_of(colours));
  std::unordered_map<int64_t, size_t> place;
  for (size_t i = 0; i < records.index.size(); ++i) place[records.index[i]] = i;
  SplitWriter out(channels_of(colours));
  for (const int64_t index : order) {
    if (limit >= 0 && out.size() == limit) break;
    const auto it = place.find(index);
    if (it == place.end()) continue;
    for (size_t c = 0; c < channels; ++c) {
      out.tokens(std::span(records.pixels).subspan((it->second * channels + c) * kPixels, kPixels));
    }
    out.label(records.label[it->second]);
  }
  if (out.size() == 0 || (limit >= 0 && out.size() < limit)) {
    throw UsageError(options.source.string() + " holds " + std::to_string(out.size()) +
                     " images for " + split + ", fewer than the --" + split + " " +
                     std::to_string(std::max<int64_t>(limit, 1)) + " asked for");
  }
  return out;
}

void prepare_cifar(const PrepareOptions& options) {
  refuse_other_options(options, "image", {"settings"});
  CifarSettings settings;
  read_fields(options.settings, settings, "--set");
  const Colours colours = settings.colours;
  if (options.source.empty()) {
    throw UsageError(
        "image is made of CIFAR-10: give cifar-10-binary.tar.gz "
        "(https://www.cs.toronto.edu/~kriz/cifar.html), or its folder, with --source");
  }
  const Cifar cifar = read(options, colours);
  const std::vector<int64_t> order = record_order();
  std::vector<int64_t> test_order(kRecordsAFile);
  std::iota(test_order.begin(), test_order.end(), int64_t{0});
  const std::span all(order);
  std::map<std::string, SplitWriter> splits;
  splits["train"] =
      take(cifar.train, all.first(kTrainSize), options.train, "train", options, colours);
  splits["dev"] = take(cifar.train, all.subspan(kTrainSize), options.dev, "dev", options, colours);
  splits["test"] = take(cifar.test, test_order, options.test, "test", options, colours);
  Manifest manifest;
  manifest.task = "image";
  manifest.source = cifar.label + ", from " + source_name(options);
  manifest.generator = "cifar/1";
  manifest.vocabulary = 256;
  manifest.classes = 10;
  manifest.inputs = channels_of(colours);
  if (colours != Colours::grey) manifest.options["colours"] = to_string(colours);
  for (const char* split : kSplits) manifest.options[split] = splits.at(split).size();
  write_prepared(options.out, manifest, splits);
}

[[maybe_unused]] const bool cifar_registered = register_task({
    .name = "image",
    .title = "Image",
    .classes = 10,
    .vocabulary = 256,
    .inputs = 1,
    .length = kPixels,
    .dev = 5'000,
    .image = true,
    .coloured = true,
    .masked_share = 0.5,
    .public_data = {{"train+dev", 50'000}, {"test", 10'000}},
    .description = "what is in a CIFAR-10 image? 32 x 32 grey pixels as a sequence",
    .source = "cifar-10-binary.tar.gz or its folder",
    .prepare = prepare_cifar,
    .render = render,
});

}  // namespace

uint8_t grey(uint8_t red, uint8_t green, uint8_t blue) {
  static const std::array<float, 256> kRed = products(0.2989f), kGreen = products(0.5870f),
                                      kBlue = products(0.1140f);
  const float sum = kRed[red] + kGreen[green] + kBlue[blue];
  return static_cast<uint8_t>(sum * 255.5f);
}

std::array<unsigned char, 16> md5_digest(std::string_view bytes) {
  std::array<unsigned char, 16> digest{};
  if (EVP_Digest(bytes.data(), bytes.size(), digest.data(), nullptr, EVP_md5(), nullptr) != 1)
    throw Error("OpenSSL cannot compute MD5 on this machine, which LRA's split needs");
  return digest;
}

std::vector<int64_t> record_order() {
  using Digest = std::array<unsigned char, 16>;
  std::vector<std::pair<Digest, int64_t>> keys(kTrainRecords);
  for (int64_t i = 0; i < kTrainRecords; ++i) {
    keys[static_cast<size_t>(i)] = {md5_digest("train" + std::to_string(i)), i};
  }
  std::ranges::sort(keys);
  std::vector<int64_t> order;
  for (const auto& [digest, index] : keys) order.push_back(index);
  return order;
}

void Records::add(int64_t official_index, uint8_t image_label,
                  std::span<const uint8_t> image_pixels) {
  index.push_back(official_index);
  label.push_back(image_label);
  pixels.insert(pixels.end(), image_pixels.begin(), image_pixels.end());
}

std::string render(std::span<const uint16_t> ids) { return shades(ids, kSide); }

}  // namespace lra::image
