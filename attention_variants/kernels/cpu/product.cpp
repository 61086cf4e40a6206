#include "attention_variants/kernels/cpu/product.h"

#include <algorithm>

#include "attention_variants/kernels/cpu/columns.h"

// BLAS, Fortran's interface: column-major, so that what it calls the first matrix is our second.
extern "C" void sgemm_(const char* transpose_a, const char* transpose_b, const int* m, const int* n,
                       const int* k, const float* alpha, const float* a, const int* lda,
                       const float* b, const int* ldb, const float* beta, float* c, const int* ldc);

namespace lra::cpu {
namespace {

void by_blas(Transposed transposed, int64_t m, int64_t n, int64_t k, ConstMatrix a, ConstMatrix b,
             Matrix c, Scale scale) {
  const auto rows = static_cast<int>(m), columns = static_cast<int>(n), depth = static_cast<int>(k),
             lda = static_cast<int>(a.stride), ldb = static_cast<int>(b.stride),
             ldc = static_cast<int>(c.stride);
  sgemm_(transposed == Transposed::b ? "T" : "N", transposed == Transposed::a ? "T" : "N", &columns,
         &rows, &depth, &scale.product, b.data, &ldb, a.data, &lda, &scale.old, c.data, &ldc);
}

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)

// So many terms of a sum at a time: that much of b, for one block of columns, stays in cache.
constexpr int64_t kDepth = 256;

// kRows rows and kVectors vectors of columns of c, which are added up at once. a: [kRows,depth], or
// kTransposed [depth,kRows].
template <class C, int64_t kRows, int64_t kVectors, bool kTransposed>
LRA_INLINE void multiply_block(int64_t depth, ConstMatrix a, ConstMatrix b, Matrix c, Scale scale) {
  using Lanes = typename C::Lanes;
  Lanes sum[kRows][kVectors];
#pragma GCC unroll 16
  for (int64_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int64_t v = 0; v < kVectors; ++v) sum[r][v] = Lanes{};
  }
  for (int64_t p = 0; p < depth; ++p) {
    Lanes right[kVectors];
#pragma GCC unroll 4
    for (int64_t v = 0; v < kVectors; ++v) right[v] = C::at(b[p] + v * C::width);
#pragma GCC unroll 16
    for (int64_t r = 0; r < kRows; ++r) {
      const float left = kTransposed ? a[p][r] : a[r][p];
#pragma GCC unroll 4
      for (int64_t v = 0; v < kVectors; ++v) sum[r][v] += left * right[v];
    }
  }
#pragma GCC unroll 16
  for (int64_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int64_t v = 0; v < kVectors; ++v) {
      Lanes& to = C::at(c[r] + v * C::width);
      to = scale.old == 0 ? scale.product * sum[r][v] : scale.product * sum[r][v] + scale.old * to;
    }
  }
}

template <bool kTransposed>
LRA_INLINE ConstMatrix later_rows(ConstMatrix a, int64_t row) {
  return kTransposed ? ConstMatrix{a.data + row, a.stride} : a.from(row);
}

// The last rows, fewer than kRows + 1.
template <class C, int64_t kRows, int64_t kVectors, bool kTransposed>
LRA_INLINE void multiply_rest(int64_t m, int64_t depth, ConstMatrix a, ConstMatrix b, Matrix c,
                              Scale scale) {
  if constexpr (kRows > 0) {
    if (m == kRows) return multiply_block<C, kRows, kVectors, kTransposed>(depth, a, b, c, scale);
    multiply_rest<C, kRows - 1, kVectors, kTransposed>(m, depth, a, b, c, scale);
  }
}

// All rows of as many columns of c as a block has.
template <class C, int64_t kRows, int64_t kVectors, bool kTransposed>
LRA_INLINE void multiply_columns(int64_t m, int64_t depth, ConstMatrix a, ConstMatrix b, Matrix c,
                                 Scale scale) {
  int64_t i = 0;
  for (; i + kRows <= m; i += kRows) {
    multiply_block<C, kRows, kVectors, kTransposed>(depth, later_rows<kTransposed>(a, i), b,
                                                    c.from(i), scale);
  }
  multiply_rest<C, kRows - 1, kVectors, kTransposed>(m - i, depth, later_rows<kTransposed>(a, i), b,
                                                     c.from(i), scale);
}

// The last `count` columns, fewer than a vector has: of b with zeros beside them.
template <class C, int64_t kRows, bool kTransposed>
LRA_INLINE void multiply_last_columns(int64_t m, int64_t count, int64_t depth, ConstMatrix a,
                                      ConstMatrix b, Matrix c, Scale scale) {
  alignas(64) float right[kDepth * C::width];
  for (int64_t p = 0; p < depth; ++p) {
    float* const to = right + p * C::width;
    std::copy(b[p], b[p] + count, to);
    std::fill(to + count, to + C::width, 0.0F);
  }
  for (int64_t i = 0; i < m; i += kRows) {
    alignas(64) float product[kRows * C::width];
    const int64_t rows = std::min(kRows, m - i);
    multiply_columns<C, kRows, 1, kTransposed>(rows, depth, later_rows<kTransposed>(a, i),
                                               {right, C::width}, {product, C::width}, {});
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t j = 0; j < count; ++j) {
        float& to = c[i + r][j];
        const float one = product[r * C::width + j];
        to = scale.old == 0 ? scale.product * one : scale.product * one + scale.old * to;
      }
    }
  }
}

LRA_INLINE Matrix at_column(Matrix x, int64_t j) { return {x.data + j, x.stride}; }
LRA_INLINE ConstMatrix at_column(ConstMatrix x, int64_t j) { return {x.data + j, x.stride}; }

// Registers for kSums vectors of sums beside what is multiplied.
template <class C, int64_t kSums, bool kTransposed>
LRA_INLINE void multiply_all(int64_t m, int64_t n, int64_t k, ConstMatrix a, ConstMatrix b,
                             Matrix c, Scale scale) {
  int64_t done = 0;
  do {  // c is written even where there is no term
    const int64_t depth = std::min(kDepth, k - done);
    int64_t j = 0;
    const auto columns = [&]<int64_t kVectors>() __attribute__((always_inline)) {
      for (; j + kVectors * C::width <= n; j += kVectors * C::width) {
        multiply_columns<C, std::min<int64_t>(kSums / kVectors, 12), kVectors, kTransposed>(
            m, depth, a, at_column(b, j), at_column(c, j), scale);
      }
    };
    if constexpr (kSums >= 24) columns.template operator()<4>();
    columns.template operator()<2>();
    columns.template operator()<1>();
    if (j < n) {
      multiply_last_columns<C, 12, kTransposed>(m, n - j, depth, a, at_column(b, j),
                                                at_column(c, j), scale);
    }
    done += depth;
    a = later_rows<!kTransposed>(a, depth);
    b = b.from(depth);
    scale.old = 1;
  } while (done < k);
}

// xᵀ of x [rows,columns], without gaps between its rows; four by four.
LRA_INLINE void transpose(ConstMatrix x, int64_t rows, int64_t columns, float* to) {
  using Four = Columns<4>;
  int64_t i = 0;
  for (; i + 4 <= rows; i += 4) {
    int64_t j = 0;
    for (; j + 4 <= columns; j += 4) {
      const Four::Lanes a = Four::at(x[i] + j), b = Four::at(x[i + 1] + j),
                        c = Four::at(x[i + 2] + j), d = Four::at(x[i + 3] + j);
      const Four::Lanes ab = __builtin_shufflevector(a, b, 0, 4, 1, 5),
                        cd = __builtin_shufflevector(c, d, 0, 4, 1, 5),
                        ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7),
                        cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
      Four::at(to + j * rows + i) = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
      Four::at(to + (j + 1) * rows + i) = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
      Four::at(to + (j + 2) * rows + i) = __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5);
      Four::at(to + (j + 3) * rows + i) = __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7);
    }
    for (; j < columns; ++j) {
      for (int64_t r = 0; r < 4; ++r) to[j * rows + i + r] = x[i + r][j];
    }
  }
  for (; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) to[j * rows + i] = x[i][j];
  }
}

template <class C, int64_t kSums>
LRA_INLINE void by_registers(Transposed transposed, int64_t m, int64_t n, int64_t k, ConstMatrix a,
                             ConstMatrix b, Matrix c, Scale scale) {
  if (transposed == Transposed::a) return multiply_all<C, kSums, true>(m, n, k, a, b, c, scale);
  if (transposed == Transposed::b) {
    thread_local std::vector<float> turned;
    if (turned.size() < static_cast<size_t>(n * k)) turned.resize(static_cast<size_t>(n * k));
    transpose(b, n, k, turned.data());
    b = {turned.data(), n};
  }
  multiply_all<C, kSums, false>(m, n, k, a, b, c, scale);
}

// 24 of 32 registers, and 12 of 16.
__attribute__((target("avx512f,fma"))) void by_avx512(Transposed transposed, int64_t m, int64_t n,
                                                      int64_t k, ConstMatrix a, ConstMatrix b,
                                                      Matrix c, Scale scale) {
  by_registers<Columns<16>, 24>(transposed, m, n, k, a, b, c, scale);
}

__attribute__((target("avx2,fma"))) void by_avx2(Transposed transposed, int64_t m, int64_t n,
                                                 int64_t k, ConstMatrix a, ConstMatrix b, Matrix c,
                                                 Scale scale) {
  by_registers<Columns<8>, 12>(transposed, m, n, k, a, b, c, scale);
}

bool runs(ProductCode code) {
  switch (code) {
    case ProductCode::blas:
      return true;
    case ProductCode::avx2:
      return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
    case ProductCode::avx512:
      return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("fma") != 0;
  }
  return false;
}

bool blas_is_at_home() { return __builtin_cpu_is("intel") != 0; }

#else

bool runs(ProductCode code) { return code == ProductCode::blas; }
bool blas_is_at_home() { return true; }
const auto by_avx512 = by_blas, by_avx2 = by_blas;

#endif

}  // namespace

const char* name_of(ProductCode code) {
  constexpr const char* kNames[] = {"blas", "avx2", "avx512"};
  return kNames[static_cast<int>(code)];
}

std::vector<ProductCode> product_codes() {
  std::vector<ProductCode> codes;
  for (const auto code : {ProductCode::blas, ProductCode::avx2, ProductCode::avx512}) {
    if (runs(code)) codes.push_back(code);
  }
  return codes;
}

ProductCode product_code() {
  static const ProductCode chosen = blas_is_at_home() ? ProductCode::blas : product_codes().back();
  return chosen;
}

void multiply_by(ProductCode code, Transposed transposed, int64_t m, int64_t n, int64_t k,
                 ConstMatrix a, ConstMatrix b, Matrix c, Scale scale) {
  switch (code) {
    case ProductCode::blas:
      return by_blas(transposed, m, n, k, a, b, c, scale);
    case ProductCode::avx2:
      return by_avx2(transposed, m, n, k, a, b, c, scale);
    case ProductCode::avx512:
      return by_avx512(transposed, m, n, k, a, b, c, scale);
  }
}

}  // namespace lra::cpu
