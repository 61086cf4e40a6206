#include "attention_variants/ops/cpu/kernels/gemm_bf16.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>

#include "attention_variants/ops/cpu/kernels/gemm_f32.h"
#include "attention_variants/ops/cpu/kernels/gemm_microkernel.h"

#if LRA_HAS_X86_CODES
#include <ATen/native/CPUBlas.h>
#include <immintrin.h>
#endif

namespace lra::ops::cpu {
namespace {

// Room for at least `count`, whose contents are lost. At a cache line's beginning: BLAS may add up
// in another order elsewhere, and each thread has its own room.
float* scratch(std::vector<float>& kept, int64_t count) {
  constexpr size_t kLine = 64;
  const size_t needed = static_cast<size_t>(count) + kLine / sizeof(float);
  if (kept.size() < needed) kept.resize(needed);
  void* at = kept.data();
  size_t space = kept.size() * sizeof(float);
  return static_cast<float*>(
      std::align(kLine, static_cast<size_t>(count) * sizeof(float), at, space));
}

LRA_FOR_EACH_CPU void round_row(const float* x, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = std::bit_cast<float>(bfloat16_bits(x[i]) << 16);
}

// x [rows,columns] rounded, without gaps between the rows.
void round_rows(ConstMatrix x, int64_t rows, int64_t columns, float* to) {
  if (x.stride == columns) return round_row(x.data, rows * columns, to);
  for (int64_t r = 0; r < rows; ++r) round_row(x[r], columns, to + r * columns);
}

void by_float32(Transposed transposed, int64_t m, int64_t n, int64_t k, ConstMatrix a,
                ConstMatrix b, Matrix c, GemmScale scale) {
  thread_local std::vector<float> left, right;
  float *const x = scratch(left, m * k), *const y = scratch(right, k * n);
  const bool a_turned = transposed == Transposed::a, b_turned = transposed == Transposed::b;
  const int64_t a_columns = a_turned ? m : k, b_columns = b_turned ? k : n;
  round_rows(a, a_turned ? k : m, a_columns, x);
  round_rows(b, b_turned ? n : k, b_columns, y);
  gemm_f32(product_code(), transposed, m, n, k, {x, a_columns}, {y, b_columns}, c, scale);
}

#if LRA_HAS_X86_CODES

#define LRA_BFLOAT16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))

bool has_bfloat16_instructions() {
  return __builtin_cpu_supports("avx512bf16") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
         __builtin_cpu_supports("avx512vl") != 0;
}

// Two terms of a sum at once: elements are pairs of bfloat16 numbers, the earlier one in the lower
// half.
struct Bf16Pairs {
  using Registers = Simd<16>;
  static constexpr int64_t sums = 24;
  static constexpr bool packs = false;

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"  // inlined, it is passed nothing
  LRA_INLINE static void add(Registers::Vector& sum, float left, const Registers::Vector& right) {
    using Words [[gnu::vector_size(64)]] = int32_t;
    const Words all = Words{} + std::bit_cast<int32_t>(left);
    sum = __builtin_ia32_dpbf16ps_v16sf(sum, (__m512bh)all, (__m512bh)right);  // of the same bits
  }
#pragma GCC diagnostic pop

  template <int64_t kRows, int64_t kVectors, bool kTransposed>
  LRA_BFLOAT16 [[gnu::noinline]] static void multiply_columns(int64_t m, int64_t depth,
                                                              ConstMatrix a, ConstMatrix b,
                                                              Matrix c, GemmScale scale) {
    registers::multiply_columns<Bf16Pairs, kRows, kVectors, kTransposed>(m, depth, a, b, c, scale);
  }
};

__mmask16 first_of(int64_t count) {
  return static_cast<__mmask16>(count >= 16 ? 0xFFFF : (1 << count) - 1);
}

// Compilers do not find by themselves the instructions for 16 numbers at once, here and below. They
// take numbers below the least normal one for zero.
LRA_BFLOAT16 void round_row(const float* x, int64_t count, uint16_t* to) {
  for (int64_t i = 0; i < count; i += 16) {
    const __mmask16 some = first_of(count - i);
    const __m256bh numbers = _mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(some, x + i));
    _mm256_mask_storeu_epi16(to + i, some, reinterpret_cast<const __m256i&>(numbers));
  }
}

// Pairs of a row's neighbours, x [rows,columns] -> to [rows,pairs]; zeros stand beside an odd one
// out and after the last ones.
void pair_columns(ConstMatrix x, int64_t rows, int64_t columns, int64_t pairs, float* to) {
  auto* halves = reinterpret_cast<uint16_t*>(to);
  if (x.stride == columns && 2 * pairs == columns) return round_row(x.data, rows * columns, halves);
  for (int64_t r = 0; r < rows; ++r, halves += 2 * pairs) {
    round_row(x[r], columns, halves);
    std::memset(halves + columns, 0, static_cast<size_t>(2 * pairs - columns) * sizeof(*halves));
  }
}

// Pairs of a column's neighbours, x [rows,columns] -> to [pairs,columns]; likewise.
LRA_BFLOAT16 void pack_row_pairs(ConstMatrix x, int64_t rows, int64_t columns, int64_t pairs,
                                 Matrix to) {
  alignas(64) uint16_t order[32];
  for (int i = 0; i < 32; ++i) order[i] = static_cast<uint16_t>(i / 2 + i % 2 * 16);
  const __m512i in_turn = _mm512_load_si512(order);
  for (int64_t r = 0; r < rows; r += 2) {
    const bool odd_one_out = r + 1 == rows;
    const float *const low = x[r], *const high = odd_one_out ? low : x[r + 1];
    for (int64_t j = 0; j < columns; j += 16) {
      const __mmask16 some = first_of(columns - j), beside = odd_one_out ? 0 : some;
      const __m512bh both = _mm512_cvtne2ps_pbh(_mm512_maskz_loadu_ps(beside, high + j),
                                                _mm512_maskz_loadu_ps(some, low + j));
      const __m512i pair =
          _mm512_permutexvar_epi16(in_turn, reinterpret_cast<const __m512i&>(both));
      _mm512_mask_storeu_epi32(to[r / 2] + j, some, pair);
    }
  }
  for (int64_t p = (rows + 1) / 2; p < pairs; ++p) std::fill(to[p], to[p] + columns, 0.0F);
}

LRA_BFLOAT16 void by_avx512(Transposed transposed, int64_t m, int64_t n, int64_t k, ConstMatrix a,
                            ConstMatrix b, Matrix c, GemmScale scale) {
  thread_local std::vector<float> left, right, transposed_b;
  const int64_t pairs = (k + 1) / 2;
  const int64_t stride = transposed == Transposed::b ? transposed_stride(n) : n;
  float *const x = scratch(left, m * pairs), *const y = scratch(right, pairs * stride);
  if (transposed == Transposed::b) {
    float* const rows = scratch(transposed_b, n * pairs);
    pair_columns(b, n, k, pairs, rows);
    transpose({rows, pairs}, n, pairs, {y, stride});
  } else {
    pack_row_pairs(b, k, n, pairs, {y, n});
  }
  const registers::AsGiven right_rows{{y, stride}};
  if (transposed == Transposed::a) {
    pack_row_pairs(a, k, m, pairs, {x, m});
    return registers::multiply_all<Bf16Pairs, true>(m, n, pairs, {x, m}, right_rows, c, scale);
  }
  pair_columns(a, m, k, pairs, x);
  registers::multiply_all<Bf16Pairs, false>(m, n, pairs, {x, pairs}, right_rows, c, scale);
}

#else

bool has_bfloat16_instructions() { return false; }
constexpr auto by_avx512 = by_float32;

#endif

#if LRA_HAS_X86_CODES && defined(CPUBLAS_BRGEMM_BF16BF16F32)

// False where LibTorch was built without, or told to do without.
bool has_onednn() {
  static const bool has = [] {
    const std::vector<at::BFloat16> a(32 * 32), b(32 * 32);
    std::vector<float> c(32 * 32);
    try {
      at::native::cpublas::brgemm(32, 32, 32, 32, 32, 32, /*add_C=*/false, a.data(), b.data(),
                                  c.data());
    } catch (const c10::Error&) {
      return false;
    }
    at::native::cpublas::brgemm_release();
    return true;
  }();
  return has;
}
bool has_tiles() { return at::native::cpublas::could_pack(at::kBFloat16); }

int64_t filled_up(int64_t count, int64_t to_multiple) {
  return (count + to_multiple - 1) / to_multiple * to_multiple;
}

// c = product * sums + old * c, rounded likewise in all columns
LRA_BFLOAT16 void add_scaled(int64_t m, int64_t n, ConstMatrix sums, Matrix c, GemmScale scale) {
  for (int64_t r = 0; r < m; ++r) {
    const float* const from = sums[r];
    float* const to = c[r];
    if (scale.old == 0) {
      for (int64_t j = 0; j < n; ++j) to[j] = scale.product * from[j];
    } else {
      for (int64_t j = 0; j < n; ++j) to[j] = std::fma(scale.product, from[j], scale.old * to[j]);
    }
  }
}

// For every shape and stride oneDNN compiles code and keeps it: rows, columns and the terms of a
// sum are filled up to multiples of 32, and go apart where c has no room for them, which leaves
// few. b goes in panels of as many columns as oneDNN packs at most.
void by_onednn(Transposed transposed, int64_t m, int64_t n, int64_t k, ConstMatrix a, ConstMatrix b,
               Matrix c, GemmScale scale) {
  constexpr int64_t kFull = 32, kPanel = 64;
  thread_local std::vector<float> left, right, transposed_b, apart;
  const int64_t rows = filled_up(m, kFull), depth = filled_up(k, kFull), pairs = depth / 2,
                panels = filled_up(n, kPanel);
  float *const x = scratch(left, rows * pairs), *const y = scratch(right, pairs * panels),
               *const sums = scratch(apart, rows * kPanel);
  if (transposed == Transposed::a) {
    float* const columns = scratch(transposed_b, pairs * m);
    pack_row_pairs(a, k, m, pairs, {columns, m});
    transpose({columns, m}, pairs, m, {x, pairs});
  } else {
    pair_columns(a, m, k, pairs, x);
  }
  const auto pack = [&](int64_t j, int64_t columns, Matrix panel) {
    if (transposed != Transposed::b)
      return pack_row_pairs({b.data + j, b.stride}, k, columns, pairs, panel);
    float* const as_rows = scratch(transposed_b, columns * pairs);
    pair_columns(b.from(j), columns, k, pairs, as_rows);
    transpose({as_rows, pairs}, columns, pairs, panel);
  };
  const bool plain = scale.product == 1 && scale.old == 0 && c.stride % kFull == 0;
  for (int64_t j = 0; j < n; j += kPanel) {
    const int64_t columns = std::min(kPanel, n - j), wide = filled_up(columns, kFull),
                  direct = plain && columns == wide ? m / kFull * kFull : 0;
    float* const panel = y + j * pairs;
    pack(j, columns, {panel, kPanel});
    const auto multiply_rows = [&](int64_t begin, int64_t end, Matrix to) {
      if (begin == end) return;
      at::native::cpublas::brgemm(end - begin, wide, depth, depth, kPanel, to.stride,
                                  /*add_C=*/false,
                                  reinterpret_cast<const at::BFloat16*>(x + begin * pairs),
                                  reinterpret_cast<const at::BFloat16*>(panel), to.data);
    };
    const Matrix to = {c.data + j, c.stride};
    multiply_rows(0, direct, to);
    if (direct == m) continue;
    multiply_rows(direct, rows, {sums, kPanel});
    add_scaled(m - direct, columns, {sums, kPanel}, to.from(direct), scale);
  }
  at::native::cpublas::brgemm_release();  // others on this thread shape tiles as they need them
}

#else

bool has_onednn() { return false; }
bool has_tiles() { return false; }
constexpr auto by_onednn = by_float32;

#endif

}  // namespace

const char* name_of(GemmBf16Backend code) {
  constexpr const char* kNames[] = {"float32", "avx512", "onednn"};
  return kNames[static_cast<int>(code)];
}

std::vector<GemmBf16Backend> rounded_codes() {
  std::vector<GemmBf16Backend> codes = {GemmBf16Backend::float32};
  if (has_bfloat16_instructions()) {
    codes.push_back(GemmBf16Backend::avx512);
    if (has_onednn()) codes.push_back(GemmBf16Backend::onednn);
  }
  return codes;
}

GemmBf16Backend rounded_code() {
  static const GemmBf16Backend chosen = !has_bfloat16_instructions()  ? GemmBf16Backend::float32
                                        : has_onednn() && has_tiles() ? GemmBf16Backend::onednn
                                                                      : GemmBf16Backend::avx512;
  return chosen;
}

void gemm_bf16(GemmBf16Backend code, Transposed transposed, int64_t m, int64_t n, int64_t k,
               ConstMatrix a, ConstMatrix b, Matrix c, GemmScale scale) {
  if (k == 0) return gemm_f32(product_code(), transposed, m, n, k, a, b, c, scale);
  constexpr decltype(&by_float32) kCodes[] = {by_float32, by_avx512, by_onednn};
  kCodes[static_cast<int>(code)](transposed, m, n, k, a, b, c, scale);
}

}  // namespace lra::ops::cpu
