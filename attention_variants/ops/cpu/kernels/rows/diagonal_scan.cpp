#include "attention_variants/ops/cpu/kernels/rows/diagonal_scan.h"

#include <type_traits>

#include "attention_variants/ops/cpu/kernels/rows/simd.h"

namespace lra::ops::cpu::LRA_ISA {
namespace {

// Registers of states at a time, so that the steps of one need not wait for those of another.
constexpr int64_t kTogether = 4;

// Calls body(Columns, how many of them, first state) for all states.
template <class Body>
LRA_INLINE void for_states(int64_t states, const Body& body) {
  using Many = std::integral_constant<int64_t, kTogether>;
  using One = std::integral_constant<int64_t, 1>;
  int64_t p = 0;
  for (; p + kTogether * kSimdWidth <= states; p += kTogether * kSimdWidth)
    body(Simd<kSimdWidth>(), Many(), p);
  for (; p + kSimdWidth <= states; p += kSimdWidth) body(Simd<kSimdWidth>(), One(), p);
  for (; p + 4 <= states; p += 4) body(Simd<4>(), One(), p);
  for (; p < states; ++p) body(Simd<1>(), One(), p);
}

// Row number i in the order of a scan.
LRA_INLINE int64_t row_of(ScanOrder order, int64_t i, int64_t rows) {
  return order == ScanOrder::forward ? i : rows - 1 - i;
}

}  // namespace

void scan_rows(const float* transition, int64_t states, bool conjugate, ScanOrder order, Matrix x,
               int64_t rows, float* carry) {
  const float sign = conjugate ? -1.0F : 1.0F;
  for_states(
      states, [&](auto columns, auto together, int64_t p) __attribute__((always_inline)) {
        using C = decltype(columns);
        constexpr int64_t kCount = decltype(together)::value;
        typename C::Vector a[kCount], b[kCount], re[kCount], im[kCount];
#pragma GCC unroll 4
        for (int64_t k = 0; k < kCount; ++k) {
          const int64_t at = p + k * C::width;
          a[k] = C::at(transition + at);
          b[k] = sign * C::at(transition + states + at);
          re[k] = C::at(carry + at);
          im[k] = C::at(carry + states + at);
        }
        for (int64_t i = 0; i < rows; ++i) {
          float* const row = x[row_of(order, i, rows)] + p;
#pragma GCC unroll 4
          for (int64_t k = 0; k < kCount; ++k) {
            float* const at = row + k * C::width;
            const typename C::Vector next = (C::at(at) + a[k] * re[k]) - b[k] * im[k];
            im[k] = (C::at(at + states) + a[k] * im[k]) + b[k] * re[k];
            re[k] = next;
            C::at(at) = re[k];
            C::at(at + states) = im[k];
          }
        }
#pragma GCC unroll 4
        for (int64_t k = 0; k < kCount; ++k) {
          C::at(carry + p + k * C::width) = re[k];
          C::at(carry + states + p + k * C::width) = im[k];
        }
      });
}

void add_transition_gradients(ConstMatrix x, ConstMatrix g, int64_t rows, int64_t states,
                              ScanOrder order, const float* before, float* sums) {
  for_states(
      states, [&](auto columns, auto together, int64_t p) __attribute__((always_inline)) {
        using C = decltype(columns);
        constexpr int64_t kCount = decltype(together)::value;
        typename C::Vector re[kCount], im[kCount];
#pragma GCC unroll 4
        for (int64_t k = 0; k < kCount; ++k) {
          re[k] = C::at(sums + p + k * C::width);
          im[k] = C::at(sums + states + p + k * C::width);
        }
        for (int64_t i = 0; i < rows; ++i) {
          const float* const of_state = (i == 0 ? before : x[row_of(order, i - 1, rows)]) + p;
          const float* const of_grad = g[row_of(order, i, rows)] + p;
#pragma GCC unroll 4
          for (int64_t k = 0; k < kCount; ++k) {
            const typename C::Vector xr = C::at(of_state + k * C::width),
                                     xi = C::at(of_state + states + k * C::width),
                                     gr = C::at(of_grad + k * C::width),
                                     gi = C::at(of_grad + states + k * C::width);
            re[k] += xr * gr;
            re[k] += xi * gi;
            im[k] += xr * gi;
            im[k] -= xi * gr;
          }
        }
#pragma GCC unroll 4
        for (int64_t k = 0; k < kCount; ++k) {
          C::at(sums + p + k * C::width) = re[k];
          C::at(sums + states + p + k * C::width) = im[k];
        }
      });
}

}  // namespace lra::ops::cpu::LRA_ISA
