#include "attention_variants/kernels/cpu/matrix.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <vector>

#include "attention_variants/kernels/cpu/product.h"
#include "attention_variants/kernels/cpu/vector_math.h"

// MKL's product of bfloat16 matrices; other BLAS have no such function.
extern "C" [[gnu::weak]] void gemm_bf16bf16f32_(const char* transpose_a, const char* transpose_b,
                                                const int* m, const int* n, const int* k,
                                                const float* alpha, const uint16_t* a,
                                                const int* lda, const uint16_t* b, const int* ldb,
                                                const float* beta, float* c, const int* ldc);

namespace lra::cpu {
namespace {

#if defined(__x86_64__)
// One instruction for 16 numbers, which compilers do not find by themselves. It takes numbers below
// the least normal one for zero.
__attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16"))) void round_row(const float* x,
                                                                               int64_t count,
                                                                               uint16_t* to) {
  for (int64_t i = 0; i < count; i += 16) {
    const auto some = static_cast<__mmask16>(count - i >= 16 ? 0xFFFF : (1 << (count - i)) - 1);
    const __m256bh numbers = _mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(some, x + i));
    _mm256_mask_storeu_epi16(to + i, some, reinterpret_cast<const __m256i&>(numbers));
  }
}
#else
void round_row(const float* x, int64_t count, uint16_t* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<uint16_t>(bfloat16_bits(x[i]));
}
#endif

LRA_FOR_EACH_CPU void round_row(const float* x, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = std::bit_cast<float>(bfloat16_bits(x[i]) << 16);
}

// x [rows,columns] rounded, without gaps between its rows.
template <class T>
const T* round_all(ConstMatrix x, int64_t rows, int64_t columns, std::vector<T>& to) {
  if (to.size() < static_cast<size_t>(rows * columns))
    to.resize(static_cast<size_t>(rows * columns));
  if (x.stride == columns) {
    round_row(x.data, rows * columns, to.data());
  } else {
    for (int64_t r = 0; r < rows; ++r) round_row(x[r], columns, to.data() + r * columns);
  }
  return to.data();
}

}  // namespace

namespace detail {

constinit thread_local Products products = Products::float32;

bool has_bfloat16_instructions() {
#if defined(__x86_64__)
  static const bool has =
      gemm_bf16bf16f32_ != nullptr && __builtin_cpu_supports("avx512bf16") != 0 &&
      __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512vl") != 0;
  return has;
#else
  return false;
#endif
}

void multiply(Transposed transposed, int64_t m, int64_t n, int64_t k, ConstMatrix a, ConstMatrix b,
              Matrix c, Scale scale) {
  if (products == Products::bfloat16) {
    return multiply_bfloat16(transposed, m, n, k, a, b, c, scale, has_bfloat16_instructions());
  }
  multiply_by(product_code(), transposed, m, n, k, a, b, c, scale);
}

void multiply_bfloat16(Transposed transposed, int64_t m, int64_t n, int64_t k, ConstMatrix a,
                       ConstMatrix b, Matrix c, Scale scale, bool by_instructions) {
  const bool ta = transposed == Transposed::a, tb = transposed == Transposed::b;
  const int64_t a_rows = ta ? k : m, a_columns = ta ? m : k, b_rows = tb ? n : k,
                b_columns = tb ? k : n;
  if (!by_instructions) {
    thread_local std::vector<float> left, right;
    return multiply_by(product_code(), transposed, m, n, k,
                       {round_all(a, a_rows, a_columns, left), a_columns},
                       {round_all(b, b_rows, b_columns, right), b_columns}, c, scale);
  }
  thread_local std::vector<uint16_t> left, right;
  const uint16_t *x = round_all(a, a_rows, a_columns, left),
                 *y = round_all(b, b_rows, b_columns, right);
  const auto rows = static_cast<int>(m), columns = static_cast<int>(n), depth = static_cast<int>(k),
             lda = static_cast<int>(a_columns), ldb = static_cast<int>(b_columns),
             ldc = static_cast<int>(c.stride);
  gemm_bf16bf16f32_(tb ? "T" : "N", ta ? "T" : "N", &columns, &rows, &depth, &scale.product, y,
                    &ldb, x, &lda, &scale.old, c.data, &ldc);
}

}  // namespace detail
}  // namespace lra::cpu
