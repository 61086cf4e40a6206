#include "attention_variants/ops/cpu/row_tiles.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "attention_variants/ops/cpu/kernels/rows/padding.h"
#include "attention_variants/ops/cpu/parallel.h"
#include "attention_variants/ops/cpu/rounding.h"

namespace lra::ops::cpu {
namespace {

int64_t tiles_of(int64_t rows) { return (rows + kRowTile - 1) / kRowTile; }

struct Tile {
  int64_t begin, rows;
  int64_t used;  // rows up to the last token
};

std::vector<Tile> tiles_under(const bool* mask, int64_t rows) {
  std::vector<Tile> tiles;
  for (int64_t begin = 0; begin < rows; begin += kRowTile) {
    const int64_t count = std::min(kRowTile, rows - begin);
    tiles.push_back({.begin = begin,
                     .rows = count,
                     .used = mask == nullptr ? count : used_length(mask + begin, count)});
  }
  return tiles;
}

// The first tile of each worker and, behind them, the number of tiles: ranges of about as much
// work.
std::vector<size_t> shared_out(const std::vector<Tile>& tiles, int64_t workers) {
  constexpr int64_t kOfUsed = 10;     // a row takes about as many times as long as zeros in one
  std::vector<int64_t> before = {0};  // each tile
  for (const Tile& tile : tiles)
    before.push_back(before.back() + kOfUsed * tile.used + tile.rows - tile.used);
  std::vector<size_t> first;
  for (int64_t worker = 0; worker < workers; ++worker) {
    const auto behind = std::ranges::upper_bound(before, before.back() * worker / workers);
    first.push_back(static_cast<size_t>(behind - before.begin() - 1));
  }
  first.push_back(tiles.size());
  return first;
}

}  // namespace

int64_t row_tile_workers(int64_t rows) { return threads_for(tiles_of(rows)); }

void parallel_for_row_tiles(
    int64_t rows, const bool* mask,
    const std::function<void(int64_t worker, int64_t begin, int64_t rows)>& body,
    const std::function<void(int64_t begin, int64_t rows)>& blank) {
  const std::vector<Tile> tiles = tiles_under(mask, rows);
  const int64_t workers = row_tile_workers(rows);
  const std::vector<size_t> first = shared_out(tiles, workers);
  parallel_for_dynamic(workers, [&](int64_t worker, int64_t) {
    const auto own = static_cast<size_t>(worker);
    for (size_t i = first[own]; i < first[own + 1]; ++i) {
      const auto& [begin, count, used] = tiles[i];
      if (used > 0) body(worker, begin, used);
      if (used < count) blank(begin + used, count - used);
    }
  });
}

const float* StoredRows::read(int64_t begin, int64_t rows, float* between) const {
  if (!rounded_) return x_.const_data_ptr<float>() + begin * width_;
  from_bfloat16({bfloat16_data(x_) + begin * width_, width_}, rows, width_, {between, width_});
  return between;
}

float* StoredRows::to_write(int64_t begin, float* between) const {
  return rounded_ ? between : x_.mutable_data_ptr<float>() + begin * width_;
}

void StoredRows::store(int64_t begin, int64_t rows, const float* written) const {
  if (!rounded_) return;
  to_bfloat16({written, width_}, rows, width_,
              {mutable_bfloat16_data(x_) + begin * width_, width_});
}

void StoredRows::blank(int64_t begin, int64_t rows) const {
  const int64_t bytes = x_.element_size() * width_, floats = bytes / sizeof(float);
  auto* const first = static_cast<std::byte*>(x_.mutable_data_ptr()) + begin * bytes;
  if (bytes % static_cast<int64_t>(sizeof(float)) == 0) {
    blank_rows({reinterpret_cast<float*>(first), floats}, 0, rows, floats);
  } else {
    std::fill(first, first + rows * bytes, std::byte{0});
  }
}

}  // namespace lra::ops::cpu
