#include "attention_variants/ops/cpu/kernels/rows/softmax_columns.h"

#include <limits>

#include "attention_variants/ops/cpu/kernels/rows/simd.h"

namespace lra::ops::cpu::LRA_ISA {
namespace {

constexpr float kLowest = std::numeric_limits<float>::lowest();

// kVectors vectors of a row's columns.
template <int64_t kWidth, int64_t kVectors>
struct Strip {
  using C = Simd<kWidth>;
  using Vector = typename C::Vector;
  using Words [[gnu::vector_size(kWidth * sizeof(float)), gnu::may_alias]] = int32_t;
  static constexpr int64_t vectors = kVectors;

  LRA_INLINE static Vector& at(float* row, int64_t v) { return C::at(row + v * kWidth); }
  LRA_INLINE static const Vector& at(const float* row, int64_t v) {
    return C::at(row + v * kWidth);
  }

  // x where the bits of vector v of the columns from c on say so, else 0.
  LRA_INLINE static void drop(Vector& x, const uint16_t* bits, int64_t c, int64_t v) {
    alignas(64) static constexpr int32_t kLane[] = {
        1,      1 << 1, 1 << 2,  1 << 3,  1 << 4,  1 << 5,  1 << 6,  1 << 7,
        1 << 8, 1 << 9, 1 << 10, 1 << 11, 1 << 12, 1 << 13, 1 << 14, 1 << 15};
    const int64_t column = c + v * kWidth;
    const Words of = Words{} + (bits[column / kDropoutLanes] >> column % kDropoutLanes);
    x = (of & reinterpret_cast<const Words&>(kLane)) != 0 ? x : Vector{};
  }

  LRA_INLINE static void clear(float* row) {
    for (int64_t v = 0; v < kVectors; ++v) at(row, v) = Vector{};
  }
};

// Calls body(Strip, first column) for all columns, many at a time while there are: as many as leave
// registers for what is computed of them.
template <int64_t kWidth, class Body>
LRA_INLINE void for_strips(int64_t columns, const Body& body) {
  constexpr int64_t kVectors = kWidth == 16 ? 4 : 2;
  int64_t c = 0;
  for (; c + kWidth * kVectors <= columns; c += kWidth * kVectors)
    body(Strip<kWidth, kVectors>(), c);
  for (; c + kWidth <= columns; c += kWidth) body(Strip<kWidth, 1>(), c);
  for (; c + 4 <= columns; c += 4) body(Strip<4, 1>(), c);
  for (; c < columns; ++c) body(Strip<1, 1>(), c);
}

// top becomes the largest of it and of the rows that are not skipped.
template <class S, class Skipped>
LRA_INLINE void raise_tops(Matrix s, int64_t rows, int64_t c, const Skipped& skipped,
                           typename S::Vector* top) {
  for (int64_t r = 0; r < rows; ++r) {
    if (skipped(r)) continue;
    for (int64_t v = 0; v < S::vectors; ++v) {
      const typename S::Vector x = S::at(s[r] + c, v);
      top[v] = x > top[v] ? x : top[v];
    }
  }
}

// Rows become the powers of s - less, after use(row number, v, power) of each, which may change
// it; those that are skipped become zero.
template <class S, class Skipped, class Use>
LRA_INLINE void raise_rows(Matrix s, int64_t rows, int64_t c, const Skipped& skipped,
                           const typename S::Vector* less, const Use& use) {
  for (int64_t r = 0; r < rows; ++r) {
    float* const row = s[r] + c;
    if (skipped(r)) {
      S::clear(row);
      continue;
    }
    for (int64_t v = 0; v < S::vectors; ++v) {
      typename S::Vector x = S::at(row, v) - less[v];
      S::C::exp2_in_place(x);
      use(r, v, x);
      S::at(row, v) = x;
    }
  }
}

LRA_INLINE const uint16_t* row_bits(const TileRows& of, int64_t row) {
  return of.bits + row * kDropoutHalves;
}

template <int64_t kWidth, bool kDropped>
LRA_INLINE void running(Matrix s, const TileRows& of, int64_t columns, float* column_max,
                        float* sums, float* rescale) {
  for_strips<kWidth>(
      columns, [&](auto strip, int64_t c) __attribute__((always_inline)) {
        using S = decltype(strip);
        typename S::Vector top[S::vectors], sum[S::vectors];
        const auto skipped = [&](int64_t r) { return of.mask != nullptr && !of.mask[r]; };
        for (int64_t v = 0; v < S::vectors; ++v) top[v] = S::at(column_max + c, v);
        raise_tops<S>(s, of.rows, c, skipped, top);
        for (int64_t v = 0; v < S::vectors; ++v) {
          typename S::Vector shrink = S::at(column_max + c, v) - top[v];
          S::C::exp2_in_place(shrink);
          S::at(rescale + c, v) = shrink;
          S::at(column_max + c, v) = top[v];
          sum[v] = S::at(sums + c, v) * shrink;
        }
        raise_rows<S>(
            s, of.rows, c, skipped,
            top, [&](int64_t r, int64_t v, typename S::Vector & x) __attribute__((always_inline)) {
              sum[v] += x;
              if constexpr (kDropped) S::drop(x, row_bits(of, r), c, v);
            });
        for (int64_t v = 0; v < S::vectors; ++v) S::at(sums + c, v) = sum[v];
      });
}

template <int64_t kWidth, bool kDropped>
LRA_INLINE void probabilities(Matrix s, const TileRows& of, int64_t columns,
                              const SoftmaxStats& stats, Matrix kept) {
  const float *const max = stats.max, *const inverse_sum = stats.inverse_sum;
  for_strips<kWidth>(
      columns, [&](auto strip, int64_t c) __attribute__((always_inline)) {
        using S = decltype(strip);
        for (int64_t r = 0; r < of.rows; ++r) {
          float* const row = s[r] + c;
          if (of.mask != nullptr && !of.mask[r]) {
            S::clear(row);
            if constexpr (kDropped) S::clear(kept[r] + c);
            continue;
          }
          for (int64_t v = 0; v < S::vectors; ++v) {
            typename S::Vector p = S::at(row, v) - S::at(max + c, v);
            S::C::exp2_in_place(p);
            p *= S::at(inverse_sum + c, v);
            S::at(row, v) = p;
            if constexpr (kDropped) {
              S::drop(p, row_bits(of, r), c, v);
              S::at(kept[r] + c, v) = p;
            }
          }
        }
      });
}

template <int64_t kWidth, bool kDropped>
LRA_INLINE void gradient(ConstMatrix p, Matrix grad, const TileRows& of, int64_t columns,
                         const float* dot, float scale) {
  for_strips<kWidth>(
      columns, [&](auto strip, int64_t c) __attribute__((always_inline)) {
        using S = decltype(strip);
        for (int64_t r = 0; r < of.rows; ++r) {
          for (int64_t v = 0; v < S::vectors; ++v) {
            typename S::Vector& to = S::at(grad[r] + c, v);
            typename S::Vector given = to;
            if constexpr (kDropped) S::drop(given, row_bits(of, r), c, v);
            to = S::at(p[r] + c, v) * (given - S::at(dot + c, v)) * scale;
          }
        }
      });
}

template <int64_t kWidth>
LRA_INLINE void exponentials_of(Matrix s, int64_t m, int64_t columns, const float* bias,
                                float* column_max, float* inverse) {
  for_strips<kWidth>(
      columns, [&](auto strip, int64_t c) __attribute__((always_inline)) {
        using S = decltype(strip);
        typename S::Vector top[S::vectors], sum[S::vectors];
        for (int64_t v = 0; v < S::vectors; ++v) {
          top[v] = typename S::Vector{} + kLowest;
          sum[v] = typename S::Vector{};
        }
        const auto skipped = [&](int64_t j) { return bias[j] != 0; };
        raise_tops<S>(s, m, c, skipped, top);
        raise_rows<S>(
            s, m, c, skipped,
            top, [&](int64_t, int64_t v, typename S::Vector & x) __attribute__((always_inline)) {
              sum[v] += x;
            });
        for (int64_t v = 0; v < S::vectors; ++v) {
          S::at(column_max + c, v) = top[v];
          S::at(inverse + c, v) = 1.0F / sum[v];
        }
      });
}

template <int64_t kWidth>
LRA_INLINE void backward_of(Matrix s, Matrix grad, int64_t m, int64_t columns, const float* bias,
                            const float* column_max, const float* inverse, float scale) {
  for_strips<kWidth>(
      columns, [&](auto strip, int64_t c) __attribute__((always_inline)) {
        using S = decltype(strip);
        typename S::Vector top[S::vectors], dot[S::vectors];
        for (int64_t v = 0; v < S::vectors; ++v) {
          top[v] = S::at(column_max + c, v);
          dot[v] = typename S::Vector{};
        }
        raise_rows<S>(
            s, m, c, [&](int64_t j) { return bias[j] != 0; }, top,
            [&](int64_t j, int64_t v, typename S::Vector & p) __attribute__((always_inline)) {
              p *= S::at(inverse + c, v);
              dot[v] += p * S::at(grad[j] + c, v);
            });
        for (int64_t j = 0; j < m; ++j) {
          for (int64_t v = 0; v < S::vectors; ++v) {
            typename S::Vector& to = S::at(grad[j] + c, v);
            to = S::at(s[j] + c, v) * (to - dot[v]) * scale;
          }
        }
      });
}

}  // namespace

TileDropout::TileDropout(const WeightDropout& dropout, int64_t begin, int64_t rows)
    : drops_(dropout.threshold != 0), scale_(1) {
  if (!drops_) return;
  scale_ = static_cast<float>(dropout_scale(dropout.threshold));
  philox_keep_bits(dropout.seed, dropout.first_block + begin, rows, dropout.threshold,
                   bits_.data());
}

void online_softmax_columns(Matrix s, const TileRows& of, int64_t columns, float* column_max,
                            float* sums, float* rescale) {
  if (of.bits == nullptr)
    return running<kSimdWidth, false>(s, of, columns, column_max, sums, rescale);
  running<kSimdWidth, true>(s, of, columns, column_max, sums, rescale);
}

void column_probabilities(Matrix s, const TileRows& of, int64_t columns, const SoftmaxStats& stats,
                          Matrix kept) {
  if (of.bits == nullptr) return probabilities<kSimdWidth, false>(s, of, columns, stats, kept);
  probabilities<kSimdWidth, true>(s, of, columns, stats, kept);
}

void column_gradient(ConstMatrix p, Matrix grad, const TileRows& of, int64_t columns,
                     const float* dot, float scale) {
  if (of.bits == nullptr) return gradient<kSimdWidth, false>(p, grad, of, columns, dot, scale);
  gradient<kSimdWidth, true>(p, grad, of, columns, dot, scale);
}

void exp_columns(Matrix s, int64_t m, int64_t columns, const float* bias, float* column_max,
                 float* inverse) {
  exponentials_of<kSimdWidth>(s, m, columns, bias, column_max, inverse);
}

void columns_backward(Matrix s, Matrix grad, int64_t m, int64_t columns, const float* bias,
                      const float* column_max, const float* inverse, float scale) {
  backward_of<kSimdWidth>(s, grad, m, columns, bias, column_max, inverse, scale);
}

}  // namespace lra::ops::cpu::LRA_ISA
