#include "attention_variants/ops/cpu/row_tiles.h"

#include <algorithm>

#include "attention_variants/ops/cpu/kernels/rows/padding.h"
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
      const int64_t begin = tile * kRowTile, count = std::min(kRowTile, rows - begin),
                    used = mask == nullptr ? count : extent_of(mask + begin, count).length;
      if (used > 0) body(worker, begin, used);
      if (used < count) blank(begin + used, count - used);
    }
  });
}

}  // namespace lra::ops::cpu
