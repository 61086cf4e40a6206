#include "attention_variants/ops/cpu/row_tiles.h"

#include <algorithm>

#include "attention_variants/ops/cpu/parallel.h"

namespace lra::ops::cpu {
namespace {

int64_t tiles_of(int64_t rows) { return (rows + kRowTile - 1) / kRowTile; }

}  // namespace

int64_t row_tile_workers(int64_t rows) { return threads_for(tiles_of(rows)); }

void parallel_for_row_tiles(
    int64_t rows, const bool* mask,
    const std::function<void(int64_t worker, int64_t begin, int64_t rows)>& body,
    const std::function<void(int64_t begin, int64_t rows)>& blank) {
  const int64_t tiles = tiles_of(rows), workers = row_tile_workers(rows);
  parallel_for_dynamic(workers, [&](int64_t worker, int64_t) {
    for (int64_t tile = tiles * worker / workers; tile < tiles * (worker + 1) / workers; ++tile) {
      const int64_t begin = tile * kRowTile, count = std::min(kRowTile, rows - begin);
      if (mask == nullptr ||
          std::find(mask + begin, mask + begin + count, true) != mask + begin + count) {
        body(worker, begin, count);
      } else {
        blank(begin, count);
      }
    }
  });
}

}  // namespace lra::ops::cpu
