// The names and contents of the files of a source, as the readers of IMDB, CIFAR-10 and LRA's
// Pathfinder take them. The first byte chooses the reader; then come name, zero byte and content
// of each file, separated by a byte 0xff.
#include "lra/tasks/image/cifar.h"
#include "lra/tasks/pathfinder/pathfinder.h"
#include "lra/tasks/text/imdb.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/archives.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lra;
  if (size == 0) return 0;
  std::vector<ArchiveEntry> entries;
  for (std::string_view rest = fuzz::text_of(data + 1, size - 1);
       !rest.empty() && entries.size() < 100;) {
    const std::string_view file = rest.substr(0, rest.find('\xff'));
    rest.remove_prefix(std::min(file.size() + 1, rest.size()));
    const size_t zero = std::min(file.find('\0'), file.size());
    entries.push_back({.name = std::string(file.substr(0, zero)),
                       .content = std::string(file.substr(std::min(zero + 1, file.size())))});
  }
  const PrepareOptions options{.source = fuzz::folder() / "source.tar", .threads = 1};
  try {
    write_archive(options.source, entries);
  } catch (const Error&) {
    return 0;  // names that no tar can have
  }
  fuzz::accepted([&] {
    switch (data[0] % 3) {
      case 0: {
        const text::Reviews reviews = text::read(options);
        const text::Splits splits = text::split(reviews, options);
        fuzz::require(splits.train.size() + splits.dev.size() == reviews.train.size(),
                      "train and dev share out the training half");
        break;
      }
      case 1:
        image::read(options);
        break;
      default: {
        const pathfinder::Release release = pathfinder::read_release(options, 32, "hard");
        fuzz::require(release.splits.size() == 3, "there are three splits");
      }
    }
  });
  return 0;
}
