// Which backend multiplies: BLAS or registers; AMX, AVX-512 BF16 or float32.
#include "attention_variants/ops/cpu/kernels/gemm/gemm.h"

#include <algorithm>
#include <array>
#include <new>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "attention_variants/ops/cpu/kernels/gemm/amx.h"
#include "attention_variants/ops/cpu/kernels/gemm/gemm_bf16.h"
#include "attention_variants/ops/cpu/kernels/gemm/gemm_f32.h"
#include "attention_variants/ops/cpu/kernels/gemm/gemm_scratch.h"
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

// Whether it is as fast as own products in `registers`, or not known to be slower.
bool blas_suits([[maybe_unused]] GemmBackend registers) {
#if defined(__x86_64__)
  if (MKL_Set_Num_Threads_Local != nullptr)
    return registers != GemmBackend::avx512 && __builtin_cpu_is("intel") != 0;
#endif
  return true;
}

// Whether its products of pairs of bfloat16 numbers are faster than those of float32. Intel's cores
// start one such instruction in two cycles and two multiply-adds of float32 in one, which is twice
// as many operations; their pairs belong to AMX.
bool pairs_suit() {
#if defined(__x86_64__)
  return __builtin_cpu_is("intel") == 0;
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

// Of x [rows,columns] that is given transposed or not, the block at (row, column), rounded.
ConstMatrix rounded_block(ConstMatrix x, bool transposed, int64_t row, int64_t column, int64_t rows,
                          int64_t columns, float* to) {
  if (transposed) {
    std::swap(row, column);
    std::swap(rows, columns);
  }
  round_rows({x[row] + column, x.stride}, rows, columns, to);
  return {to, columns};
}

void by_float32(Transposed transposed, int64_t m, int64_t n, int64_t k, ConstMatrix a,
                ConstMatrix b, Matrix c, GemmScale scale) {
  Arena& arena = *detail::gemm_arena;
  const Arena::Frame frame(arena);
  const RoundedBlocks blocks(arena);
  for (int64_t done = 0; done < k; done += kGemmDepth) {
    const int64_t depth = std::min(kGemmDepth, k - done);
    for (int64_t i = 0; i < m; i += kGemmRows) {
      const int64_t rows = std::min(kGemmRows, m - i);
      const ConstMatrix x =
          rounded_block(a, transposed == Transposed::a, i, done, rows, depth, blocks.left);
      for (int64_t j = 0; j < n; j += RoundedBlocks::kColumns) {
        const int64_t columns = std::min(RoundedBlocks::kColumns, n - j);
        const ConstMatrix y =
            rounded_block(b, transposed == Transposed::b, done, j, depth, columns, blocks.right);
        gemm_f32(gemm_backend(), transposed, rows, columns, depth, x, y, {c[i] + j, c.stride},
                 scale);
      }
    }
    scale.old = 1;
  }
}

GemmKernel* registers_of(GemmBackend backend) {
  for (const KernelTable* const table : kernel_tables()) {
    if (std::string_view(table->isa) == name_of(backend)) return table->gemm_f32_registers;
  }
  return nullptr;
}

GemmKernel* kernel_of(GemmBackend backend) {
  // Looked up once: asked for at every product.
  static const std::array<GemmKernel*, 3> kKernels = {by_blas, registers_of(GemmBackend::avx2),
                                                      registers_of(GemmBackend::avx512)};
  return kKernels[static_cast<size_t>(backend)];
}

GemmKernel* kernel_of(GemmBf16Backend backend) {
  static const std::array<GemmKernel*, 4> kKernels = {by_float32, kernels().gemm_bf16_registers,
                                                      kernels().gemm_bf16_emulated_tiles,
                                                      kernels().gemm_bf16_tiles};
  return kKernels[static_cast<size_t>(backend)];
}

// The thread's scratch; where it has none, some that lives as long as this.
class ScratchOfThread {
 public:
  explicit ScratchOfThread(GemmPrecision precision) {
    if (detail::gemm_arena != nullptr) return;
    const int64_t bytes = gemm_scratch_bytes(precision);
    memory_ = static_cast<std::byte*>(::operator new(static_cast<size_t>(bytes), kAlignment));
    arena_.emplace(memory_, bytes);
    scratch_.emplace(*arena_);
  }
  ~ScratchOfThread() {
    if (memory_ == nullptr) return;
    scratch_.reset();
    arena_.reset();
    ::operator delete(memory_, kAlignment);
  }
  ScratchOfThread(const ScratchOfThread&) = delete;
  ScratchOfThread& operator=(const ScratchOfThread&) = delete;

 private:
  static constexpr std::align_val_t kAlignment{Arena::kLine};
  std::byte* memory_ = nullptr;
  std::optional<Arena> arena_;
  std::optional<GemmScratch> scratch_;
};

// Each layout after those that stand above it at the same time.
struct RoundedScratch {
  explicit RoundedScratch(Arena& arena) {
    const RoundedBlocks blocks(arena);
    const TransposedBlock block(arena);
  }
};

}  // namespace

const char* name_of(GemmBackend backend) {
  constexpr const char* kNames[] = {"blas", "avx2", "avx512"};
  return kNames[static_cast<int>(backend)];
}

std::vector<GemmBackend> gemm_backends() {
  std::vector<GemmBackend> backends = {GemmBackend::blas};
  for (const auto backend : {GemmBackend::avx2, GemmBackend::avx512}) {
    if (kernel_of(backend) != nullptr) backends.push_back(backend);
  }
  return backends;
}

GemmBackend gemm_backend() {
  static const GemmBackend chosen = [] {
    const GemmBackend registers = gemm_backends().back();
    return blas_suits(registers) ? GemmBackend::blas : registers;
  }();
  return chosen;
}

void gemm_f32(GemmBackend backend, Transposed transposed, int64_t m, int64_t n, int64_t k,
              ConstMatrix a, ConstMatrix b, Matrix c, GemmScale scale) {
  const ScratchOfThread scratch(GemmPrecision::float32);
  kernel_of(backend)(transposed, m, n, k, a, b, c, scale);
}

const char* name_of(GemmBf16Backend backend) {
  constexpr const char* kNames[] = {"float32", "avx512", "emulated_tiles", "amx"};
  return kNames[static_cast<int>(backend)];
}

std::vector<GemmBf16Backend> gemm_bf16_backends() {
  std::vector<GemmBf16Backend> backends = {GemmBf16Backend::float32};
  if (kernels().gemm_bf16_registers != nullptr) {
    backends.push_back(GemmBf16Backend::avx512);
    backends.push_back(GemmBf16Backend::emulated_tiles);
    if (amx_multiplies_bfloat16()) backends.push_back(GemmBf16Backend::amx);
  }
  return backends;
}

GemmBf16Backend gemm_bf16_backend() {
  static const GemmBf16Backend chosen = [] {
    const std::vector<GemmBf16Backend> backends = gemm_bf16_backends();
    if (backends.back() == GemmBf16Backend::amx) return backends.back();
    if (backends.size() > 1 && pairs_suit()) return GemmBf16Backend::avx512;
    return GemmBf16Backend::float32;
  }();
  return chosen;
}

void gemm_bf16(GemmBf16Backend backend, Transposed transposed, int64_t m, int64_t n, int64_t k,
               ConstMatrix a, ConstMatrix b, Matrix c, GemmScale scale) {
  if (k == 0) return gemm_f32(gemm_backend(), transposed, m, n, k, a, b, c, scale);
  const ScratchOfThread scratch(GemmPrecision::bfloat16);
  kernel_of(backend)(transposed, m, n, k, a, b, c, scale);
}

int64_t gemm_scratch_bytes(GemmPrecision precision) {
  // Of any backend that there is, not of the chosen ones alone, which tests and benchmarks pass
  // over.
  static const int64_t float32 = gemm_backends().size() > 1 ? bytes_of<TransposedBlock>() : 0;
  if (precision == GemmPrecision::float32) return float32;
  static const int64_t bfloat16 =
      std::max({bytes_of<RoundedScratch>(), bytes_of<PairBlocks>(), bytes_of<TileBlocks>()});
  return bfloat16;
}

namespace detail {

constinit thread_local Arena* gemm_arena = nullptr;
constinit thread_local GemmPrecision products = GemmPrecision::float32;

void gemm(Transposed transposed, int64_t m, int64_t n, int64_t k, ConstMatrix a, ConstMatrix b,
          Matrix c, GemmScale scale) {
  if (products == GemmPrecision::bfloat16)
    return gemm_bf16(gemm_bf16_backend(), transposed, m, n, k, a, b, c, scale);
  gemm_f32(gemm_backend(), transposed, m, n, k, a, b, c, scale);
}

}  // namespace detail
}  // namespace lra::ops::cpu
