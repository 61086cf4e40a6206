// How operators that compute a tile of rows at a time share them out.
#pragma once

#include <cstdint>
#include <functional>

namespace lra {

/// Rows a tile: with 128 columns 128 KiB, which stay in a core's cache from one step to the next.
inline constexpr int64_t kRowTile = 256;

/// Parts that for_each_tile() makes of the rows: one a thread of LibTorch, at most one a tile.
int64_t tile_parts(int64_t rows);

/// Calls body(part, begin, rows of the tile) for every tile of [0, rows). The tiles of a part run
/// one after the other on one thread, and are the same for the same number of threads.
void for_each_tile(int64_t rows,
                   const std::function<void(int64_t part, int64_t begin, int64_t rows)>& body);

}  // namespace lra
