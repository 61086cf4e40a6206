// AAN's pairs: new_aan_pairs.train.tsv, and after a zero byte aan_texts.tsv.
#include "lra/tasks/retrieval/retrieval.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lra;
  static const bool others = [] {
    for (const char* name : {"new_aan_pairs.eval.tsv", "new_aan_pairs.test.tsv"})
      fuzz::write(name, "1.0\tP00-1001\tW01-0102\tb'one'\tb'two'\n");
    return true;
  }();
  fuzz::require(others, "the other files are there");
  const std::string_view text = fuzz::text_of(data, size);
  const size_t zero = std::min(text.find('\0'), text.size());
  fuzz::write("new_aan_pairs.train.tsv", text.substr(0, zero));
  if (zero < text.size()) {
    fuzz::write("aan_texts.tsv", text.substr(zero + 1));
  } else {
    std::filesystem::remove(fuzz::folder() / "aan_texts.tsv");
  }
  fuzz::accepted([] {
    const auto splits = retrieval::read_tsv({.source = fuzz::folder()}).splits;
    fuzz::require(splits.at("train").size() > 0, "there are rows");
  });
  return 0;
}
