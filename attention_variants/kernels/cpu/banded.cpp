#include "attention_variants/kernels/cpu/banded.h"

#include <algorithm>

namespace lra::cpu {
namespace {

constexpr int64_t kBlock = 64;  // results a product

void lay_out_after(int64_t zeros, ConstMatrix x, const bool* mask, int64_t length, int64_t width,
                   int64_t kernel, Matrix to) {
  const auto clear = [&](int64_t row) { std::fill(to[row], to[row] + width, 0.0F); };
  const int64_t rows = length + std::max<int64_t>(kernel - 1, 0);
  for (int64_t t = 0; t < rows; ++t) {
    const int64_t from = t - zeros;
    if (from < 0 || from >= length || !mask[from]) {
      clear(t);
    } else {
      std::copy(x[from], x[from] + width, to[t]);
    }
  }
}

}  // namespace

int64_t lead(int64_t kernel) { return kernel > 0 ? (kernel - 1) / 2 : 0; }
int64_t trail(int64_t kernel) { return kernel / 2; }

int64_t banded_scratch(int64_t kernel) { return kernel > 0 ? kBlock * (kBlock + kernel - 1) : 0; }

void lay_out(ConstMatrix x, const bool* mask, int64_t length, int64_t width, int64_t kernel,
             Matrix to) {
  lay_out_after(lead(kernel), x, mask, length, width, kernel, to);
}

void lay_out_turned(ConstMatrix x, const bool* mask, int64_t length, int64_t width, int64_t kernel,
                    Matrix to) {
  lay_out_after(trail(kernel), x, mask, length, width, kernel, to);
}

void make_bands(const float* taps, int64_t kernel, Turned turned, float* bands_at) {
  const Matrix bands{bands_at, kBlock + kernel - 1};
  for (int64_t t = 0; t < kBlock; ++t) {
    std::fill(bands[t], bands[t] + bands.stride, 0.0F);
    for (int64_t j = 0; j < kernel; ++j)
      bands[t][t + j] = taps[turned == Turned::yes ? kernel - 1 - j : j];
  }
}

void add_banded(const float* bands, ConstMatrix laid_out, int64_t kernel, int64_t rows,
                int64_t width, Matrix out) {
  for (int64_t begin = 0; begin < rows; begin += kBlock) {
    const int64_t some = std::min(kBlock, rows - begin);
    multiply(some, width, some + kernel - 1, {bands, kBlock + kernel - 1}, laid_out.from(begin),
             out.from(begin), {.old = 1});
  }
}

void add_band_gradient(ConstMatrix gradient, ConstMatrix laid_out, int64_t kernel, int64_t rows,
                       int64_t width, float* bands) {
  for (int64_t begin = 0; begin < rows; begin += kBlock) {
    const int64_t some = std::min(kBlock, rows - begin);
    multiply_bt(some, some + kernel - 1, width, gradient.from(begin), laid_out.from(begin),
                {bands, kBlock + kernel - 1}, {.old = 1});
  }
}

void add_taps(const float* bands_at, int64_t kernel, float* grad_taps) {
  const ConstMatrix bands{bands_at, kBlock + kernel - 1};
  for (int64_t t = 0; t < kBlock; ++t) {
    for (int64_t j = 0; j < kernel; ++j) grad_taps[j] += bands[t][t + j];
  }
}

}  // namespace lra::cpu
