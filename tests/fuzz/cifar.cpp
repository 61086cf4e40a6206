// CIFAR-10's binary files: the input stands for data_batch_1.bin.
#include "lra/tasks/image/cifar.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lra;
  static const bool others = [] {
    for (const char* name : {"data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                             "data_batch_5.bin", "test_batch.bin"}) {
      fuzz::write(name, std::string(3073, '\1'));
    }
    return true;
  }();
  fuzz::require(others, "the other files are there");
  fuzz::write("data_batch_1.bin", fuzz::text_of(data, size));
  fuzz::accepted([&] {
    const image::Cifar cifar = image::read({.source = fuzz::folder()});
    const size_t records = size / 3073 + 4;
    fuzz::require(cifar.train.label.size() == records, "every record is there");
    fuzz::require(cifar.train.pixels.size() == records * 1024, "every pixel is there");
    fuzz::require(cifar.label.find("not verified") != std::string::npos, "it is a subset");
  });
  return 0;
}
