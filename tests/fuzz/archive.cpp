// Archives. The first byte modulo 3: 0 = the rest as it stands (tar, gzip, xz, zip); 1 = a tar
// whose headers' checksums are repaired, so that mutations get past them; 2 = that in gzip.
#include "lra/formats/archive.h"

#include <zlib.h>

#include <algorithm>

#include "tests/fuzz/fuzz.h"

namespace {

constexpr size_t kBlock = 512;

// A header holds the size of what follows it at byte 124 and its own checksum at 148, both octal.
void repair(std::string& tar) {
  for (size_t at = 0; at + kBlock <= tar.size();) {
    std::string header = tar.substr(at, kBlock);
    at += kBlock;
    if (std::ranges::count(header, '\0') == kBlock) continue;
    header.replace(148, 8, 8, ' ');
    unsigned sum = 0;
    for (const char c : header) sum += static_cast<uint8_t>(c);
    char text[9];
    std::snprintf(text, sizeof(text), "%06o", sum & 0777777);
    tar.replace(at - kBlock + 148, 7, text, 7);
    const size_t content = std::strtoull(header.substr(124, 11).c_str(), nullptr, 8);
    if (content > tar.size()) return;
    at += (content + kBlock - 1) / kBlock * kBlock;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lra;
  if (size == 0) return 0;
  std::string bytes(fuzz::text_of(data + 1, size - 1));
  if (data[0] % 3 > 0) repair(bytes);
  const std::filesystem::path path = fuzz::write("archive", data[0] % 3 == 2 ? "" : bytes);
  if (data[0] % 3 == 2) {
    const gzFile file = gzopen(path.c_str(), "wb1");
    gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
    gzclose(file);
  }
  fuzz::accepted([&] {
    Source(path).visit([](SourceFile& file) {
      fuzz::require(!file.name().starts_with('/'), "no path is absolute");
      fuzz::require(("/" + file.name() + "/").find("/../") == std::string::npos,
                    "no path leads out");
      fuzz::accepted([&] { file.read_all(1 << 20); });
    });
  });
  fuzz::accepted([&] {
    Source(path).visit([](SourceFile& file) {
      SourceLines lines(file);
      int64_t count = 0;
      for (std::string line; count < 10'000 && lines.next(line); ++count) {
        fuzz::require(line.find('\n') == std::string::npos, "a line is one line");
      }
    });
  });
  return 0;
}
