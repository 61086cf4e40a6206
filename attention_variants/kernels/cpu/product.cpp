#include "attention_variants/kernels/cpu/product.h"

#include "attention_variants/kernels/cpu/register_product.h"
#include "attention_variants/kernels/serial_blas.h"

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

#if LRA_REGISTER_PRODUCTS

template <int64_t kWidth>
struct AddFloat32 {
  using Vector = Columns<kWidth>;
  LRA_INLINE static void add(typename Vector::Lanes& sum, float left,
                             const typename Vector::Lanes& right) {
    sum += left * right;
  }
};

template <class Add, int64_t kSums>
LRA_INLINE void by_registers(Transposed transposed, int64_t m, int64_t n, int64_t k, ConstMatrix a,
                             ConstMatrix b, Matrix c, Scale scale) {
  if (transposed == Transposed::a)
    return registers::multiply_all<Add, kSums, true>(m, n, k, a, b, c, scale);
  if (transposed == Transposed::b) {
    thread_local std::vector<float> turned;
    if (turned.size() < static_cast<size_t>(n * k)) turned.resize(static_cast<size_t>(n * k));
    registers::transpose(b, n, k, turned.data());
    b = {turned.data(), n};
  }
  registers::multiply_all<Add, kSums, false>(m, n, k, a, b, c, scale);
}

// Sums in 24 of 32 registers, and in 12 of 16.
__attribute__((target("avx512f,fma"))) void by_avx512(Transposed transposed, int64_t m, int64_t n,
                                                      int64_t k, ConstMatrix a, ConstMatrix b,
                                                      Matrix c, Scale scale) {
  by_registers<AddFloat32<16>, 24>(transposed, m, n, k, a, b, c, scale);
}

__attribute__((target("avx2,fma"))) void by_avx2(Transposed transposed, int64_t m, int64_t n,
                                                 int64_t k, ConstMatrix a, ConstMatrix b, Matrix c,
                                                 Scale scale) {
  by_registers<AddFloat32<8>, 12>(transposed, m, n, k, a, b, c, scale);
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

#else

bool runs(ProductCode code) { return code == ProductCode::blas; }
constexpr auto by_avx512 = by_blas, by_avx2 = by_blas;

#endif

}  // namespace

bool blas_suits_processor() {
#if defined(__x86_64__)
  return MKL_Set_Num_Threads_Local == nullptr || __builtin_cpu_is("intel") != 0;
#else
  return true;
#endif
}

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
  static const ProductCode chosen =
      blas_suits_processor() ? ProductCode::blas : product_codes().back();
  return chosen;
}

void multiply_by(ProductCode code, Transposed transposed, int64_t m, int64_t n, int64_t k,
                 ConstMatrix a, ConstMatrix b, Matrix c, Scale scale) {
  constexpr decltype(&by_blas) kCodes[] = {by_blas, by_avx2, by_avx512};
  kCodes[static_cast<int>(code)](transposed, m, n, k, a, b, c, scale);
}

}  // namespace lra::cpu
