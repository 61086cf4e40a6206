// Which code multiplies: BLAS or registers, oneDNN, AVX-512 BF16 or float32.
#include "attention_variants/ops/cpu/kernels/gemm/gemm.h"

#include <array>
#include <memory>
#include <vector>

#include "attention_variants/ops/cpu/kernels/gemm/gemm_bf16.h"
#include "attention_variants/ops/cpu/kernels/gemm/gemm_f32.h"
#include "attention_variants/ops/cpu/kernels/gemm/onednn.h"
#include "attention_variants/ops/cpu/kernels/gemm/serial_blas.h"
#include "attention_variants/ops/cpu/kernels/kernels.h"

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

bool blas_suits_processor() {
#if defined(__x86_64__)
  return MKL_Set_Num_Threads_Local == nullptr || __builtin_cpu_is("intel") != 0;
#else
  return true;
#endif
}

// x [rows,columns] rounded to bfloat16, without gaps between the rows.
void round_rows(ConstMatrix x, int64_t rows, int64_t columns, float* to) {
  const auto round = kernels().round_to_bfloat16;
  if (x.stride == columns) return round(x.data, rows * columns, to);
  for (int64_t r = 0; r < rows; ++r) round(x[r], columns, to + r * columns);
}

void by_float32(Transposed transposed, int64_t m, int64_t n, int64_t k, ConstMatrix a,
                ConstMatrix b, Matrix c, GemmScale scale) {
  float *const x = gemm_buffer(GemmBuffer::left, m * k), *const y =
                                                             gemm_buffer(GemmBuffer::right, k * n);
  const bool a_transposed = transposed == Transposed::a, b_transposed = transposed == Transposed::b;
  const int64_t a_columns = a_transposed ? m : k, b_columns = b_transposed ? k : n;
  round_rows(a, a_transposed ? k : m, a_columns, x);
  round_rows(b, b_transposed ? n : k, b_columns, y);
  gemm_f32(product_code(), transposed, m, n, k, {x, a_columns}, {y, b_columns}, c, scale);
}

GemmKernel* registers_of(GemmBackend code) {
  for (const KernelTable* const table : kernel_tables()) {
    if (std::string_view(table->isa) == name_of(code)) return table->gemm_f32_registers;
  }
  return nullptr;
}

GemmKernel* code_of(GemmBackend code) {
  // Looked up once: asked for at every product.
  static const std::array<GemmKernel*, 3> kCodes = {by_blas, registers_of(GemmBackend::avx2),
                                                    registers_of(GemmBackend::avx512)};
  return kCodes[static_cast<size_t>(code)];
}

GemmKernel* code_of(GemmBf16Backend code) {
  static const std::array<GemmKernel*, 3> kCodes = {by_float32, kernels().gemm_bf16_registers,
                                                    kernels().gemm_bf16_onednn};
  return kCodes[static_cast<size_t>(code)];
}

}  // namespace

float* gemm_buffer(GemmBuffer which, int64_t count) {
  constexpr size_t kLine = 64;
  thread_local std::array<std::vector<float>, 4> buffers;
  std::vector<float>& kept = buffers[static_cast<size_t>(which)];
  const size_t needed = static_cast<size_t>(count) + kLine / sizeof(float);
  if (kept.size() < needed) kept.resize(needed);
  void* at = kept.data();
  size_t space = kept.size() * sizeof(float);
  return static_cast<float*>(
      std::align(kLine, static_cast<size_t>(count) * sizeof(float), at, space));
}

const char* name_of(GemmBackend code) {
  constexpr const char* kNames[] = {"blas", "avx2", "avx512"};
  return kNames[static_cast<int>(code)];
}

std::vector<GemmBackend> product_codes() {
  std::vector<GemmBackend> codes = {GemmBackend::blas};
  for (const auto code : {GemmBackend::avx2, GemmBackend::avx512}) {
    if (code_of(code) != nullptr) codes.push_back(code);
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
  code_of(code)(transposed, m, n, k, a, b, c, scale);
}

const char* name_of(GemmBf16Backend code) {
  constexpr const char* kNames[] = {"float32", "avx512", "onednn"};
  return kNames[static_cast<int>(code)];
}

std::vector<GemmBf16Backend> rounded_codes() {
  std::vector<GemmBf16Backend> codes = {GemmBf16Backend::float32};
  if (kernels().gemm_bf16_registers != nullptr) {
    codes.push_back(GemmBf16Backend::avx512);
    if (onednn::multiplies_bfloat16()) codes.push_back(GemmBf16Backend::onednn);
  }
  return codes;
}

GemmBf16Backend rounded_code() {
  static const GemmBf16Backend chosen = [] {
    const std::vector<GemmBf16Backend> codes = rounded_codes();
    if (codes.back() == GemmBf16Backend::onednn && !onednn::has_tiles())
      return GemmBf16Backend::avx512;
    return codes.back();
  }();
  return chosen;
}

void gemm_bf16(GemmBf16Backend code, Transposed transposed, int64_t m, int64_t n, int64_t k,
               ConstMatrix a, ConstMatrix b, Matrix c, GemmScale scale) {
  if (k == 0) return gemm_f32(product_code(), transposed, m, n, k, a, b, c, scale);
  code_of(code)(transposed, m, n, k, a, b, c, scale);
}

namespace detail {

constinit thread_local GemmPrecision products = GemmPrecision::float32;

void gemm(Transposed transposed, int64_t m, int64_t n, int64_t k, ConstMatrix a, ConstMatrix b,
          Matrix c, GemmScale scale) {
  if (products == GemmPrecision::bfloat16)
    return gemm_bf16(rounded_code(), transposed, m, n, k, a, b, c, scale);
  gemm_f32(product_code(), transposed, m, n, k, a, b, c, scale);
}

}  // namespace detail
}  // namespace lra::ops::cpu
