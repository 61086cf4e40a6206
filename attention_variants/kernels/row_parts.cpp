#include "attention_variants/kernels/row_parts.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "attention_variants/kernels/cpu/matrix.h"
#include "attention_variants/kernels/serial_blas.h"

namespace lra {
namespace {

int64_t tiles_of(int64_t rows) { return (rows + kRowTile - 1) / kRowTile; }

}  // namespace

int64_t tile_parts(int64_t rows) {
  return std::clamp<int64_t>(tiles_of(rows), 1, at::get_num_threads());
}

void for_each_tile(int64_t rows, const bool* mask,
                   const std::function<void(int64_t part, int64_t begin, int64_t rows)>& body,
                   const std::function<void(int64_t begin, int64_t rows)>& blank) {
  const int64_t tiles = tiles_of(rows), parts = tile_parts(rows);
  const cpu::Products products = cpu::detail::products;
  at::parallel_for(0, parts, 1, [&](int64_t first, int64_t last) {
    const SerialBlas serial;
    const cpu::ProductScope scope(products);
    for (int64_t part = first; part < last; ++part) {
      for (int64_t tile = tiles * part / parts; tile < tiles * (part + 1) / parts; ++tile) {
        const int64_t begin = tile * kRowTile, count = std::min(kRowTile, rows - begin);
        if (mask == nullptr ||
            std::find(mask + begin, mask + begin + count, true) != mask + begin + count) {
          body(part, begin, count);
        } else {
          blank(begin, count);
        }
      }
    }
  });
}

}  // namespace lra
