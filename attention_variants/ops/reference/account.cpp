#include "attention_variants/ops/reference/account.h"

#include <ATen/Parallel.h>

#include <algorithm>

namespace lra::ops::reference {

int64_t fused_attention_bytes(int64_t rows, int64_t queries, int64_t keys, int64_t width,
                              int64_t element_size) {
  const int64_t number = element_size == 8 ? 8 : 4;  // sums are taken in float32 at least
  const int64_t tall = queries >= 768 ? 256 : queries >= 192 ? 64 : 32;
  const int64_t tile_rows = std::min(tall, queries), tile_columns = std::min<int64_t>(512, keys);
  const int64_t tile = tile_rows * (tile_columns + 2 + width);  // scores, maxima and sums, output
  return number * (rows * queries + at::get_num_threads() * tile);
}

}  // namespace lra::ops::reference
