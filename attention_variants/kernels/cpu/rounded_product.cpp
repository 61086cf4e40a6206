#include "attention_variants/kernels/cpu/rounded_product.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>

#include "attention_variants/kernels/cpu/product.h"
#include "attention_variants/kernels/cpu/register_product.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

// MKL's product of bfloat16 matrices; other BLAS have no such function.
extern "C" [[gnu::weak]] void gemm_bf16bf16f32_(const char* transpose_a, const char* transpose_b,
                                                const int* m, const int* n, const int* k,
                                                const float* alpha, const uint16_t* a,
                                                const int* lda, const uint16_t* b, const int* ldb,
                                                const float* beta, float* c, const int* ldc);

namespace lra::cpu {
namespace {

// Room for at least `count`, whose contents are lost. At a cache line's beginning: BLAS may add up
// in another order elsewhere, and each thread has its own room.
template <class T>
T* room(std::vector<T>& kept, int64_t count) {
  constexpr size_t kLine = 64;
  const size_t needed = static_cast<size_t>(count) + kLine / sizeof(T);
  if (kept.size() < needed) kept.resize(needed);
  void* at = kept.data();
  size_t space = kept.size() * sizeof(T);
  return static_cast<T*>(std::align(kLine, static_cast<size_t>(count) * sizeof(T), at, space));
}

LRA_FOR_EACH_CPU void round_row(const float* x, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = std::bit_cast<float>(bfloat16_bits(x[i]) << 16);
}

#if defined(__x86_64__)
#define LRA_BFLOAT16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))

// One instruction for 16 numbers, which compilers do not find by themselves. It takes numbers below
// the least normal one for zero.
LRA_BFLOAT16 void round_row(const float* x, int64_t count, uint16_t* to) {
  for (int64_t i = 0; i < count; i += 16) {
    const auto some = static_cast<__mmask16>(count - i >= 16 ? 0xFFFF : (1 << (count - i)) - 1);
    const __m256bh numbers = _mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(some, x + i));
    _mm256_mask_storeu_epi16(to + i, some, reinterpret_cast<const __m256i&>(numbers));
  }
}

#endif

// x [rows,columns] rounded, in rows of `stride`.
template <class T>
void round_rows(ConstMatrix x, int64_t rows, int64_t columns, int64_t stride, T* to) {
  if (x.stride == columns && stride == columns) return round_row(x.data, rows * columns, to);
  for (int64_t r = 0; r < rows; ++r) round_row(x[r], columns, to + r * stride);
}

// Both operands rounded, without gaps between their rows; until the next ones of T on this thread.
template <class T>
struct Rounded {
  Rounded(Transposed transposed, int64_t m, int64_t n, int64_t k, ConstMatrix a, ConstMatrix b)
      : a_columns(transposed == Transposed::a ? m : k),
        b_columns(transposed == Transposed::b ? k : n) {
    thread_local std::vector<T> left, right;
    T *const to_x = room(left, m * k), *const to_y = room(right, k * n);
    round_rows(a, m * k / a_columns, a_columns, a_columns, to_x);
    round_rows(b, k * n / b_columns, b_columns, b_columns, to_y);
    x = to_x;
    y = to_y;
  }
  int64_t a_columns, b_columns;
  const T *x, *y;
};

void by_float32(Transposed transposed, int64_t m, int64_t n, int64_t k, ConstMatrix a,
                ConstMatrix b, Matrix c, Scale scale) {
  const Rounded<float> of(transposed, m, n, k, a, b);
  multiply_by(product_code(), transposed, m, n, k, {of.x, of.a_columns}, {of.y, of.b_columns}, c,
              scale);
}

#if defined(__x86_64__)

bool has_bfloat16_instructions() {
  return __builtin_cpu_supports("avx512bf16") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
         __builtin_cpu_supports("avx512vl") != 0;
}

void by_blas(Transposed transposed, int64_t m, int64_t n, int64_t k, ConstMatrix a, ConstMatrix b,
             Matrix c, Scale scale) {
  const Rounded<uint16_t> of(transposed, m, n, k, a, b);
  const auto rows = static_cast<int>(m), columns = static_cast<int>(n), depth = static_cast<int>(k),
             lda = static_cast<int>(of.a_columns), ldb = static_cast<int>(of.b_columns),
             ldc = static_cast<int>(c.stride);
  gemm_bf16bf16f32_(transposed == Transposed::b ? "T" : "N",
                    transposed == Transposed::a ? "T" : "N", &columns, &rows, &depth,
                    &scale.product, of.y, &ldb, of.x, &lda, &scale.old, c.data, &ldc);
}

#else

bool has_bfloat16_instructions() { return false; }
constexpr auto by_blas = by_float32;

#endif

#if LRA_REGISTER_PRODUCTS

// Two terms of a sum at once: elements are pairs of bfloat16 numbers, the earlier one in the lower
// half.
struct Pairs {
  using Vector = Columns<16>;
  static constexpr int64_t sums = 24;

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"  // inlined, it is passed nothing
  LRA_INLINE static void add(Vector::Lanes& sum, float left, const Vector::Lanes& right) {
    using Words [[gnu::vector_size(64)]] = int32_t;
    const Words all = Words{} + std::bit_cast<int32_t>(left);
    sum = __builtin_ia32_dpbf16ps_v16sf(sum, (__m512bh)all, (__m512bh)right);  // of the same bits
  }
#pragma GCC diagnostic pop

  template <int64_t kRows, int64_t kVectors, bool kTransposed>
  LRA_BFLOAT16 [[gnu::noinline]] static void multiply_columns(int64_t m, int64_t depth,
                                                              ConstMatrix a, ConstMatrix b,
                                                              Matrix c, Scale scale) {
    registers::multiply_columns<Pairs, kRows, kVectors, kTransposed>(m, depth, a, b, c, scale);
  }
};

// Pairs of a row's neighbours, x [rows,columns] -> [rows,pairs]; an odd one out has zero beside it.
void pair_columns(ConstMatrix x, int64_t rows, int64_t columns, int64_t pairs, float* to) {
  auto* const halves = reinterpret_cast<uint16_t*>(to);
  round_rows(x, rows, columns, 2 * pairs, halves);
  if (columns % 2 == 0) return;
  for (int64_t r = 0; r < rows; ++r)
    std::memset(halves + r * 2 * pairs + columns, 0, sizeof(uint16_t));
}

// Pairs of a column's neighbours, x [rows,columns] -> [pairs,columns]; likewise.
LRA_FOR_EACH_CPU void pair_rows(ConstMatrix x, int64_t rows, int64_t columns, float* to) {
  for (int64_t r = 0; r < rows; r += 2, to += columns) {
    const float* const low = x[r];
    if (r + 1 < rows) {
      const float* const high = x[r + 1];
      for (int64_t j = 0; j < columns; ++j)
        to[j] = std::bit_cast<float>(bfloat16_bits(low[j]) | bfloat16_bits(high[j]) << 16);
    } else {
      for (int64_t j = 0; j < columns; ++j) to[j] = std::bit_cast<float>(bfloat16_bits(low[j]));
    }
  }
}

LRA_BFLOAT16 void by_avx512(Transposed transposed, int64_t m, int64_t n, int64_t k, ConstMatrix a,
                            ConstMatrix b, Matrix c, Scale scale) {
  thread_local std::vector<float> left, right, turned;
  const int64_t pairs = (k + 1) / 2;
  const int64_t stride = transposed == Transposed::b ? registers::transposed_stride(n) : n;
  float *const x = room(left, m * pairs), *const y = room(right, pairs * stride);
  if (transposed == Transposed::b) {
    float* const rows = room(turned, n * pairs);
    pair_columns(b, n, k, pairs, rows);
    registers::transpose({rows, pairs}, n, pairs, {y, stride});
  } else {
    pair_rows(b, k, n, y);
  }
  if (transposed == Transposed::a) {
    pair_rows(a, k, m, x);
    return registers::multiply_all<Pairs, true>(m, n, pairs, {x, m}, {y, stride}, c, scale);
  }
  pair_columns(a, m, k, pairs, x);
  registers::multiply_all<Pairs, false>(m, n, pairs, {x, pairs}, {y, stride}, c, scale);
}
constexpr bool kHasPairs = true;

#else

constexpr bool kHasPairs = false;
constexpr auto by_avx512 = by_float32;

#endif

}  // namespace

const char* name_of(RoundedCode code) {
  constexpr const char* kNames[] = {"float32", "blas", "avx512"};
  return kNames[static_cast<int>(code)];
}

std::vector<RoundedCode> rounded_codes() {
  std::vector<RoundedCode> codes = {RoundedCode::float32};
  if (has_bfloat16_instructions()) {
    if (gemm_bf16bf16f32_ != nullptr) codes.push_back(RoundedCode::blas);
    if (kHasPairs) codes.push_back(RoundedCode::avx512);
  }
  return codes;
}

RoundedCode rounded_code() {
  static const RoundedCode chosen = [] {
    const std::vector<RoundedCode> codes = rounded_codes();
    const bool blas =
        blas_suits_processor() && std::ranges::find(codes, RoundedCode::blas) != codes.end();
    return blas ? RoundedCode::blas : codes.back();
  }();
  return chosen;
}

void multiply_rounded_by(RoundedCode code, Transposed transposed, int64_t m, int64_t n, int64_t k,
                         ConstMatrix a, ConstMatrix b, Matrix c, Scale scale) {
  if (k == 0) return multiply_by(product_code(), transposed, m, n, k, a, b, c, scale);
  constexpr decltype(&by_float32) kCodes[] = {by_float32, by_blas, by_avx512};
  kCodes[static_cast<int>(code)](transposed, m, n, k, a, b, c, scale);
}

}  // namespace lra::cpu
