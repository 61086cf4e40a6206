// LRA's TSV of ListOps.
#include "lra/tasks/listops/listops.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lra;
  static const bool others = [] {
    for (const char* name : {"basic_val.tsv", "basic_test.tsv"})
      fuzz::write(name, "Source\tTarget\n( ( ( [SM 4 ) 7 ) ] )\t1\n");
    return true;
  }();
  fuzz::require(others, "the other files are there");
  const std::string_view text = fuzz::text_of(data, size);
  fuzz::write("basic_train.tsv", text);
  fuzz::accepted([] {
    const auto splits = listops::read_tsv({.source = fuzz::folder()}).splits;
    fuzz::require(splits.at("train").size() > 0, "there are rows");
  });
  // An expression, too, comes back as it was written.
  fuzz::accepted([&] {
    const std::vector<uint16_t> ids = listops::from_source(text);
    const int64_t value = listops::evaluate(ids);
    fuzz::require(value >= 0 && value <= 9, "a value is a digit");
    fuzz::require(listops::from_source(listops::to_source(ids)) == ids,
                  "the source text says the same");
  });
  return 0;
}
