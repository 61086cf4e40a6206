#include "attention_variants/ops/cpu/kernels/rows/channel_fourier.h"

#include <type_traits>
#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#include "attention_variants/ops/cpu/kernels/rows/simd.h"

namespace lra::ops::cpu::LRA_ISA {
namespace {

using Lanes = Simd<kSimdWidth>;
using Vector = Lanes::Vector;

constexpr int64_t kComplex = 2 * kSimdWidth;  // floats of one number of a block

struct Complex {
  Vector re, im;
};

LRA_INLINE Complex read(const float* block, int64_t position) {
  const float* const at = block + position * kComplex;
  return {Lanes::at(at), Lanes::at(at + kSimdWidth)};
}
LRA_INLINE void write(float* block, int64_t position, const Complex& z) {
  float* const at = block + position * kComplex;
  Lanes::at(at) = z.re;
  Lanes::at(at + kSimdWidth) = z.im;
}

LRA_INLINE Complex operator+(const Complex& a, const Complex& b) {
  return {a.re + b.re, a.im + b.im};
}
LRA_INLINE Complex operator-(const Complex& a, const Complex& b) {
  return {a.re - b.re, a.im - b.im};
}
LRA_INLINE Complex operator*(const Complex& a, const Complex& b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
LRA_INLINE Complex conjugate(const Complex& z) { return {z.re, -z.im}; }
LRA_INLINE Complex times_i(const Complex& z) { return {-z.im, z.re}; }

// Which exponent: e^{-i...} forward, e^{+i...} in the inverse.
enum class Way { forward, inverse };

// -i z forward, i z in the inverse.
template <Way way>
LRA_INLINE Complex quarter_turn(const Complex& z) {
  if constexpr (way == Way::inverse) return times_i(z);
  return {z.im, -z.re};
}

// z times w = {re, im}, or its conjugate.
template <Way way>
LRA_INLINE Complex turned(const Complex& z, const float* w) {
  const float re = w[0], im = way == Way::forward ? w[1] : -w[1];
  return {z.re * re - z.im * im, z.re * im + z.im * re};
}

// The transform of R numbers, in place. Odd R: of the sums and differences of opposite ones.
template <Way way, int64_t R>
LRA_INLINE void transform(Complex (&z)[R], const float* roots) {
  if constexpr (R == 2) {
    const Complex first = z[0];
    z[0] = first + z[1];
    z[1] = first - z[1];
  } else if constexpr (R == 4) {
    const Complex s0 = z[0] + z[2], s1 = z[0] - z[2], s2 = z[1] + z[3],
                  s3 = quarter_turn<way>(z[1] - z[3]);
    z[0] = s0 + s2;
    z[1] = s1 + s3;
    z[2] = s0 - s2;
    z[3] = s1 - s3;
  } else {
    constexpr int64_t kHalf = R / 2;
    Complex sum[kHalf], difference[kHalf];
#pragma GCC unroll 3
    for (int64_t s = 1; s <= kHalf; ++s) {
      sum[s - 1] = z[s] + z[R - s];
      difference[s - 1] = quarter_turn<way>(z[s] - z[R - s]);
    }
    const Complex first = z[0];
#pragma GCC unroll 3
    for (int64_t s = 0; s < kHalf; ++s) z[0] = z[0] + sum[s];
#pragma GCC unroll 3
    for (int64_t r = 1; r <= kHalf; ++r) {
      Complex even = first, odd = {};
#pragma GCC unroll 3
      for (int64_t s = 1; s <= kHalf; ++s) {
        const float cosine = roots[2 * (r * s % R)], sine = roots[2 * (r * s % R) + 1];
        even.re += cosine * sum[s - 1].re;
        even.im += cosine * sum[s - 1].im;
        odd.re += sine * difference[s - 1].re;
        odd.im += sine * difference[s - 1].im;
      }
      z[r] = even + odd;
      z[R - r] = even - odd;
    }
  }
}

template <int64_t R>
constexpr int64_t twiddles_of(int64_t n) {
  return n / R * (R - 1) * 2;
}

// One stage over n numbers: from `load`, the number at a place, to R transforms of n/R.
template <int64_t R, class Load>
LRA_INLINE void forward_stage(const float* roots, const float* w, int64_t n, const Load& load,
                              float* block) {
  const int64_t part = n / R;
  for (int64_t j = 0; j < part; ++j, w += 2 * (R - 1)) {
    Complex z[R];
#pragma GCC unroll 7
    for (int64_t r = 0; r < R; ++r) z[r] = load(j + r * part);
    transform<Way::forward>(z, roots);
    write(block, j, z[0]);
#pragma GCC unroll 6
    for (int64_t r = 1; r < R; ++r)
      write(block, j + r * part, turned<Way::forward>(z[r], w + 2 * (r - 1)));
  }
}

// Undoes forward_stage(), times R.
template <int64_t R, class Store>
LRA_INLINE void inverse_stage(const float* roots, const float* w, int64_t n, const float* block,
                              const Store& store) {
  const int64_t part = n / R;
  for (int64_t j = 0; j < part; ++j, w += 2 * (R - 1)) {
    Complex z[R];
    z[0] = read(block, j);
#pragma GCC unroll 6
    for (int64_t r = 1; r < R; ++r)
      z[r] = turned<Way::inverse>(read(block, j + r * part), w + 2 * (r - 1));
    transform<Way::inverse>(z, roots);
#pragma GCC unroll 7
    for (int64_t r = 0; r < R; ++r) store(j + r * part, z[r]);
  }
}

// The transform of a stage's last R numbers, in place.
template <Way way, int64_t R>
LRA_INLINE void last_stage(float* block) {
  Complex z[R];
#pragma GCC unroll 4
  for (int64_t r = 0; r < R; ++r) z[r] = read(block, r);
  transform<way>(z, nullptr);
#pragma GCC unroll 4
  for (int64_t r = 0; r < R; ++r) write(block, r, z[r]);
}

// The stages of n = 2^a numbers, in place, a quarter at a time, so that parts that fit a cache are
// done there. The last are of 4 or 2.
template <Way way>
void through_stages(const float* w, float* block, int64_t n) {
  const auto load = [&](int64_t p) { return read(block, p); };
  const auto store = [&](int64_t p, const Complex& z) { write(block, p, z); };
  if (n == 2) return last_stage<way, 2>(block);
  if (n == 4) return last_stage<way, 4>(block);
  if constexpr (way == Way::forward) forward_stage<4>(nullptr, w, n, load, block);
  for (int64_t r = 0; r < 4; ++r)
    through_stages<way>(w + twiddles_of<4>(n), block + r * (n / 4) * kComplex, n / 4);
  if constexpr (way == Way::inverse) inverse_stage<4>(nullptr, w, n, block, store);
}

template <Way way, int64_t R>
void through_parts(const FourierPlan& plan, float* block) {
  const int64_t part = plan.size / R;
  for (int64_t r = 0; r < R; ++r)
    through_stages<way>(plan.twiddles + twiddles_of<R>(plan.size), block + r * part * kComplex,
                        part);
}

// Calls body(std::integral_constant) with the plan's radix.
template <class Body>
LRA_INLINE void with_radix(const FourierPlan& plan, const Body& body) {
  switch (plan.radix) {
    case 3:
      return body(std::integral_constant<int64_t, 3>());
    case 5:
      return body(std::integral_constant<int64_t, 5>());
    case 7:
      return body(std::integral_constant<int64_t, 7>());
    default:
      return body(std::integral_constant<int64_t, 4>());
  }
}

// block [size] = the transform of what `load` gives for each place, frequencies as in plan.place.
template <class Load>
LRA_INLINE void transform_from(const FourierPlan& plan, const Load& load, float* block) {
  with_radix(
      plan, [&](auto radix) __attribute__((always_inline)) {
        constexpr int64_t R = decltype(radix)::value;
        forward_stage<R>(plan.roots, plan.twiddles, plan.size, load, block);
        through_parts<Way::forward, R>(plan, block);
      });
}

// Gives `store` the inverse transform of block, times its size; block is overwritten.
template <class Store>
LRA_INLINE void transform_back(const FourierPlan& plan, float* block, const Store& store) {
  with_radix(
      plan, [&](auto radix) __attribute__((always_inline)) {
        constexpr int64_t R = decltype(radix)::value;
        through_parts<Way::inverse, R>(plan, block);
        inverse_stage<R>(plan.roots, plan.twiddles, plan.size, block, store);
      });
}

// A row's first `lanes` columns, zeros in the others.
LRA_INLINE Vector row_of(const float* row, int64_t lanes) {
  if (lanes == kSimdWidth) return Lanes::at(row);
  alignas(64) float padded[kSimdWidth] = {};
  for (int64_t c = 0; c < lanes; ++c) padded[c] = row[c];
  return Lanes::at(padded);
}
LRA_INLINE void to_row(const Vector& x, int64_t lanes, float* row) {
  if (lanes == kSimdWidth) {
    Lanes::at(row) = x;
    return;
  }
  for (int64_t c = 0; c < lanes; ++c) row[c] = x[c];
}

LRA_INLINE auto row_loader(ConstMatrix x, int64_t length, int64_t lanes) {
  return [=](int64_t p) __attribute__((always_inline)) {
    return Complex{2 * p < length ? row_of(x[2 * p], lanes) : Vector{},
                   2 * p + 1 < length ? row_of(x[2 * p + 1], lanes) : Vector{}};
  };
}

// transform_back() to the first `length` rows of x. What goes around the caches must be whole
// lines.
LRA_INLINE void back_to_rows(const FourierPlan& plan, float* block, Matrix x, int64_t length,
                             int64_t lanes, [[maybe_unused]] Cached cached) {
  const auto through = [&](const auto& put) __attribute__((always_inline)) {
    transform_back(
        plan, block, [&](int64_t p, const Complex& z) __attribute__((always_inline)) {
          if (2 * p < length) put(z.re, x[2 * p]);
          if (2 * p + 1 < length) put(z.im, x[2 * p + 1]);
        });
  };
#if defined(__AVX512F__)
  const bool lines = reinterpret_cast<uintptr_t>(x.data) % 64 == 0 && x.stride % kSimdWidth == 0;
  if (cached == Cached::no && lines && lanes == kSimdWidth) {
    through([](const Vector& z, float* row) __attribute__((always_inline)) {
      _mm512_stream_ps(row, reinterpret_cast<const __m512&>(z));
    });
    _mm_sfence();
    return;
  }
#endif
  through([&](const Vector& z, float* row)
              __attribute__((always_inline)) { to_row(z, lanes, row); });
}

// The row of taps that stands at position p of the period, or -1: those that reach ahead are at its
// end.
template <class T>
LRA_INLINE int64_t tap_at(const FourierPlan& plan, const BlockTaps<T>& taps, int64_t p) {
  const int64_t ahead_begin = 2 * plan.size - taps.ahead;
  if (p >= ahead_begin) return p - ahead_begin;
  return taps.ahead + p < taps.count ? taps.ahead + p : -1;
}

// The transforms of even and of odd positions, at one frequency.
struct EvenOdd {
  Complex even, odd;
};

LRA_INLINE EvenOdd read_pair(const float* spectrum, int64_t k) {
  return {read(spectrum, 2 * k), read(spectrum, 2 * k + 1)};
}
LRA_INLINE void write_pair(float* spectrum, int64_t k, const EvenOdd& z) {
  write(spectrum, 2 * k, z.even);
  write(spectrum, 2 * k + 1, z.odd);
}

// Frequency k and its opposite in a transform of even and odd positions together.
struct Opposites {
  int64_t at, opposite;

  LRA_INLINE Opposites(const FourierPlan& plan, int64_t k)
      : at(plan.place[k]), opposite(plan.place[k == 0 ? 0 : plan.size - k]) {}

  LRA_INLINE EvenOdd split(const float* block, float scale) const {
    const Complex a = read(block, at), b = conjugate(read(block, opposite));
    const Complex sum = a + b, difference = a - b;  // 2 E, 2i O
    return {{scale * sum.re, scale * sum.im}, {scale * difference.im, -scale * difference.re}};
  }
  LRA_INLINE void join(const EvenOdd& z, float* block) const {
    write(block, at, z.even + times_i(z.odd));
    write(block, opposite, conjugate(z.even) + times_i(conjugate(z.odd)));
  }
};

}  // namespace

void transform_taps(const FourierPlan& plan, const BlockTaps<const float>& taps, int64_t lanes,
                    float* spectrum, float* scratch) {
  const auto tap = [&](int64_t p) __attribute__((always_inline)) {
    const int64_t row = tap_at(plan, taps, p);
    return row < 0 ? Vector{} : row_of(taps.rows[row], lanes);
  };
  transform_from(
      plan,
      [&](int64_t p) __attribute__((always_inline)) {
        return Complex{tap(2 * p), tap(2 * p + 1)};
      },
      scratch);
  const float scale = 0.5F / static_cast<float>(plan.size);  // of the inverse of a product with it
  for (int64_t k = 0; k <= plan.size / 2; ++k)
    write_pair(spectrum, k, Opposites(plan, k).split(scratch, scale));
}

void filter_channels(const FourierPlan& plan, ConstMatrix x, int64_t length, int64_t lanes,
                     const float* spectrum, Matrix out, Cached cached, float* scratch) {
  transform_from(plan, row_loader(x, length, lanes), scratch);
  for (int64_t k = 0; k <= plan.size / 2; ++k) {
    const Opposites frequency(plan, k);
    const EvenOdd z = frequency.split(scratch, 0.5F), h = read_pair(spectrum, k);
    // An odd tap brings an odd position to the even one behind it.
    const Complex late = turned<Way::forward>(z.odd, plan.turns + 2 * k);
    frequency.join({h.even * z.even + h.odd * late, h.even * z.odd + h.odd * z.even}, scratch);
  }
  back_to_rows(plan, scratch, out, length, lanes, cached);
}

void filter_channels_backward(const FourierPlan& plan, ConstMatrix x, ConstMatrix gradient,
                              int64_t length, int64_t lanes, const float* spectrum, Matrix grad_x,
                              Cached cached, float* sums, float* scratch) {
  float* const of_x = scratch + plan.size * kComplex;
  transform_from(plan, row_loader(x, length, lanes), of_x);
  transform_from(plan, row_loader(gradient, length, lanes), scratch);
  for (int64_t k = 0; k <= plan.size / 2; ++k) {
    const Opposites frequency(plan, k);
    const EvenOdd z = frequency.split(of_x, 0.5F), g = frequency.split(scratch, 0.5F),
                  h = read_pair(spectrum, k);
    const float* const turn = plan.turns + 2 * k;
    const EvenOdd sum = read_pair(sums, k);
    const Complex even = conjugate(z.even), odd = conjugate(z.odd),
                  early = turned<Way::inverse>(g.even, turn);
    write_pair(sums, k,
               {sum.even + even * g.even + odd * g.odd, sum.odd + odd * early + even * g.odd});
    const Complex h_even = conjugate(h.even), h_odd = conjugate(h.odd);
    frequency.join({h_even * g.even + h_odd * g.odd, h_odd * early + h_even * g.odd}, scratch);
  }
  back_to_rows(plan, scratch, grad_x, length, lanes, cached);
}

void spectrum_to_taps(const FourierPlan& plan, const float* sums, const BlockTaps<float>& to,
                      int64_t lanes, float* scratch) {
  for (int64_t k = 0; k <= plan.size / 2; ++k) Opposites(plan, k).join(read_pair(sums, k), scratch);
  const float scale = 1.0F / static_cast<float>(plan.size);
  const auto store = [&](int64_t p, const Vector& x) __attribute__((always_inline)) {
    const int64_t row = tap_at(plan, to, p);
    if (row >= 0) to_row(scale * x, lanes, to.rows[row]);
  };
  transform_back(
      plan, scratch, [&](int64_t p, const Complex& z) __attribute__((always_inline)) {
        store(2 * p, z.re);
        store(2 * p + 1, z.im);
      });
}

}  // namespace lra::ops::cpu::LRA_ISA
