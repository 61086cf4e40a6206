#include "attention_variants/ops/cpu/kernels/gemm_f32.h"

#include "attention_variants/ops/cpu/kernels/gemm_microkernel.h"
#include "attention_variants/ops/cpu/kernels/serial_blas.h"

// BLAS, Fortran's interface: column-major, so that what it calls the first matrix is our second.
extern "C" void sgemm_(const char* transpose_a, const char* transpose_b, const int* m, const int* n,
                       const int* k, const float* alpha, const float* a, const int* lda,
                       const float* b, const int* ldb, const float* beta, float* c, const int* ldc);

namespace lra::ops::cpu {
namespace {

void by_blas(Transposed transposed, int64_t m, int64_t n, int64_t k, ConstMatrix a, ConstMatrix b,
             Matrix c, GemmScale scale) {
  const auto rows = static_cast<int>(m), columns = static_cast<int>(n), depth = static_cast<int>(k),
             lda = static_cast<int>(a.stride), ldb = static_cast<int>(b.stride),
             ldc = static_cast<int>(c.stride);
  sgemm_(transposed == Transposed::b ? "T" : "N", transposed == Transposed::a ? "T" : "N", &columns,
         &rows, &depth, &scale.product, b.data, &ldb, a.data, &lda, &scale.old, c.data, &ldc);
}

#if LRA_HAS_X86_CODES

template <int64_t kWidth>
struct Float32 {
  using Registers = Simd<kWidth>;
  LRA_INLINE static void add(typename Registers::Vector& sum, float left,
                             const typename Registers::Vector& right) {
    sum += left * right;
  }
};

struct Avx512 : Float32<16> {
  static constexpr int64_t sums = 24;  // of 32 registers
  static constexpr bool packs = false;
  template <int64_t kRows, int64_t kVectors, bool kTransposed>
  LRA_AVX512 [[gnu::noinline]] static void multiply_columns(int64_t m, int64_t depth, ConstMatrix a,
                                                            ConstMatrix b, Matrix c,
                                                            GemmScale scale) {
    registers::multiply_columns<Avx512, kRows, kVectors, kTransposed>(m, depth, a, b, c, scale);
  }
};

struct Avx2 : Float32<8> {
  static constexpr int64_t sums = 12;  // of 16
  static constexpr bool packs = true;
  template <int64_t kRows, int64_t kVectors, bool kTransposed>
  LRA_AVX2 [[gnu::noinline]] static void multiply_columns(int64_t m, int64_t depth, ConstMatrix a,
                                                          ConstMatrix b, Matrix c,
                                                          GemmScale scale) {
    registers::multiply_columns<Avx2, kRows, kVectors, kTransposed>(m, depth, a, b, c, scale);
  }
};

template <class Code>
LRA_INLINE void by_registers(Transposed transposed, int64_t m, int64_t n, int64_t k, ConstMatrix a,
                             ConstMatrix b, Matrix c, GemmScale scale) {
  using registers::AsGiven, registers::multiply_all;
  if (transposed == Transposed::a)
    return multiply_all<Code, true>(m, n, k, a, AsGiven{b}, c, scale);
  if (transposed == Transposed::none)
    return multiply_all<Code, false>(m, n, k, a, AsGiven{b}, c, scale);
  thread_local std::vector<float> transposed_b;
  const auto scratch = [k](int64_t columns) {
    const auto floats = static_cast<size_t>(columns * std::max<int64_t>(k, 1));
    if (transposed_b.size() < floats) transposed_b.resize(floats);
    return transposed_b.data();
  };
  if constexpr (Code::packs) {
    constexpr int64_t kColumns = 2 * Code::Registers::width;
    float* const panels = scratch((n + kColumns - 1) / kColumns * kColumns);
    for (int64_t j = 0; j < n; j += kColumns)
      transpose(b.from(j), std::min(kColumns, n - j), k, {panels + j * k, kColumns});
    multiply_all<Code, false>(m, n, k, a, registers::Panels<kColumns>{panels, k}, c, scale);
  } else {
    const int64_t stride = transposed_stride(n);
    const Matrix to{scratch(stride), stride};
    transpose(b, n, k, to);
    multiply_all<Code, false>(m, n, k, a, AsGiven{to}, c, scale);
  }
}

LRA_AVX512 void by_avx512(Transposed transposed, int64_t m, int64_t n, int64_t k, ConstMatrix a,
                          ConstMatrix b, Matrix c, GemmScale scale) {
  by_registers<Avx512>(transposed, m, n, k, a, b, c, scale);
}

LRA_AVX2 void by_avx2(Transposed transposed, int64_t m, int64_t n, int64_t k, ConstMatrix a,
                      ConstMatrix b, Matrix c, GemmScale scale) {
  by_registers<Avx2>(transposed, m, n, k, a, b, c, scale);
}

bool runs(GemmBackend code) {
  switch (code) {
    case GemmBackend::blas:
      return true;
    case GemmBackend::avx2:
      return has_avx2();
    case GemmBackend::avx512:
      return has_avx512();
  }
  return false;
}

#else

bool runs(GemmBackend code) { return code == GemmBackend::blas; }
constexpr auto by_avx512 = by_blas, by_avx2 = by_blas;

#endif

bool blas_suits_processor() {
#if defined(__x86_64__)
  return MKL_Set_Num_Threads_Local == nullptr || __builtin_cpu_is("intel") != 0;
#else
  return true;
#endif
}

}  // namespace

const char* name_of(GemmBackend code) {
  constexpr const char* kNames[] = {"blas", "avx2", "avx512"};
  return kNames[static_cast<int>(code)];
}

std::vector<GemmBackend> product_codes() {
  std::vector<GemmBackend> codes;
  for (const auto code : {GemmBackend::blas, GemmBackend::avx2, GemmBackend::avx512}) {
    if (runs(code)) codes.push_back(code);
  }
  return codes;
}

GemmBackend product_code() {
  static const GemmBackend chosen =
      blas_suits_processor() ? GemmBackend::blas : product_codes().back();
  return chosen;
}

void gemm_f32(GemmBackend code, Transposed transposed, int64_t m, int64_t n, int64_t k,
              ConstMatrix a, ConstMatrix b, Matrix c, GemmScale scale) {
  constexpr decltype(&by_blas) kCodes[] = {by_blas, by_avx2, by_avx512};
  kCodes[static_cast<int>(code)](transposed, m, n, k, a, b, c, scale);
}

}  // namespace lra::ops::cpu
