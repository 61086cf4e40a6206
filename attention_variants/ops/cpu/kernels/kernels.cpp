// The choice of the instruction set, and the functions that call the chosen one's.
#include "attention_variants/ops/cpu/kernels/kernels.h"

#include <cstdlib>
#include <string>
#include <vector>

#include "attention_variants/base/error.h"

namespace lra::ops::cpu {

namespace baseline {
extern const KernelTable table;
}
#if LRA_X86_KERNELS
namespace avx2 {
extern const KernelTable table;
}
namespace avx512 {
extern const KernelTable table;
}
namespace avx512_bf16 {
GemmKernel gemm_bf16_registers, gemm_bf16_tiles, gemm_bf16_emulated_tiles;
}
#endif

namespace {

using Tables = std::vector<const KernelTable*>;

// All that this processor runs, each of which has the instructions of those before it.
Tables tables_that_run() {
  Tables tables = {&baseline::table};
#if LRA_X86_KERNELS
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return tables;
  tables.push_back(&avx2::table);
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl"))
    return tables;
  tables.push_back(&avx512::table);
  if (!__builtin_cpu_supports("avx512bf16")) return tables;
  static const KernelTable with_bfloat16 = [] {
    KernelTable table = avx512::table;
    table.isa = "avx512_bf16";
    table.gemm_bf16_registers = avx512_bf16::gemm_bf16_registers;
    table.gemm_bf16_tiles = avx512_bf16::gemm_bf16_tiles;
    table.gemm_bf16_emulated_tiles = avx512_bf16::gemm_bf16_emulated_tiles;
    return table;
  }();
  tables.push_back(&with_bfloat16);
#endif
  return tables;
}

// Those up to the one that LRA_CPU_ISA names.
Tables tables_asked_for() {
  Tables tables = tables_that_run();
  const char* const asked = std::getenv("LRA_CPU_ISA");
  if (asked == nullptr || *asked == '\0') return tables;
  std::string names;
  for (size_t i = 0; i < tables.size(); ++i) {
    if (std::string_view(asked) == tables[i]->isa) {
      tables.resize(i + 1);
      return tables;
    }
    names += std::string(i == 0 ? "" : ", ") + tables[i]->isa;
  }
  throw UsageError("LRA_CPU_ISA: this processor and this build have no kernels for '" +
                   std::string(asked) + "'; they have: " + names);
}

const Tables& chosen_tables() {
  static const Tables chosen = tables_asked_for();
  return chosen;
}

}  // namespace

const KernelTable& kernels() {
  static const KernelTable& chosen = *chosen_tables().back();
  return chosen;
}

std::span<const KernelTable* const> kernel_tables() { return chosen_tables(); }

void copy_keys(const SoftmaxShape& shape, SoftmaxInputs& inputs, const KeyScratch& copies) {
  kernels().copy_keys(shape, inputs, copies);
}

void softmax_forward(const SoftmaxShape& shape, const SoftmaxInputs& inputs, int64_t begin,
                     Matrix out, const SoftmaxStats& stats, Arena& arena) {
  kernels().softmax_forward(shape, inputs, begin, out, stats, arena);
}

void softmax_backward(const SoftmaxShape& shape, const SoftmaxInputs& inputs, ConstMatrix out,
                      const SoftmaxStats& stats, ConstMatrix grad_out, const SoftmaxGradients& grad,
                      KeyCopies copies, Arena& arena, const Team& team) {
  kernels().softmax_backward(shape, inputs, out, stats, grad_out, grad, copies, arena, team);
}

void linear_attention_forward(const LinearHeadShape& shape, const LinearHeadInputs& inputs,
                              Matrix out, const LinearHeadState& state, Arena& arena,
                              const Team& team) {
  kernels().linear_attention_forward(shape, inputs, out, state, arena, team);
}

void linear_attention_backward(const LinearHeadShape& shape, const LinearHeadInputs& inputs,
                               ConstMatrix out, const LinearHeadState& state, ConstMatrix grad_out,
                               const LinearHeadGradients& grad, Arena& arena, const Team& team) {
  kernels().linear_attention_backward(shape, inputs, out, state, grad_out, grad, arena, team);
}

Largest feature_largest(const LinearHeadShape& shape, const LinearHeadInputs& inputs,
                        Arena& arena) {
  return kernels().feature_largest(shape, inputs, arena);
}

void landmark_attention_forward(const LandmarkHeadShape& shape, const LandmarkHeadInputs& inputs,
                                Matrix out, const LandmarkHeadSaved& saved, Arena& arena,
                                const Team& team) {
  kernels().landmark_attention_forward(shape, inputs, out, saved, arena, team);
}

void landmark_attention_backward(const LandmarkHeadShape& shape, const LandmarkHeadInputs& inputs,
                                 const LandmarkHeadSaved& saved, ConstMatrix grad_out,
                                 const LandmarkHeadGradients& gradients, Arena& arena,
                                 const Team& team) {
  kernels().landmark_attention_backward(shape, inputs, saved, grad_out, gradients, arena, team);
}

float landmark_norm(const LandmarkHeadShape& shape, const LandmarkHeadInputs& inputs,
                    Arena& arena) {
  return kernels().landmark_norm(shape, inputs, arena);
}

void landmark_norm_backward(const LandmarkHeadShape& shape, const LandmarkHeadInputs& inputs,
                            float grad_norm, const LandmarkHeadGradients& gradients, Arena& arena) {
  kernels().landmark_norm_backward(shape, inputs, grad_norm, gradients, arena);
}

void lsh_sort(const LshShape& shape, const LshInputs& inputs, const LshBuckets& buckets,
              int32_t* order, const Team& team) {
  kernels().lsh_sort(shape, inputs, buckets, order, team);
}

void lsh_forward(const LshShape& shape, const LshInputs& inputs, const int32_t* order, Matrix out,
                 float* top, float* inverse, const Team& team) {
  kernels().lsh_forward(shape, inputs, order, out, top, inverse, team);
}

void lsh_backward(const LshShape& shape, const LshInputs& inputs, const int32_t* order,
                  ConstMatrix out, const float* top, const float* inverse, ConstMatrix grad_out,
                  Matrix grad_x, Matrix grad_v, Arena& arena, const Team& team) {
  kernels().lsh_backward(shape, inputs, order, out, top, inverse, grad_out, grad_x, grad_v, arena,
                         team);
}

void block_sparse_forward(const BlockSparseHeadShape& shape, const SparsityPattern& pattern,
                          const BlockSparseHeadInputs& inputs, Matrix out,
                          const SoftmaxStats& stats, const Team& team) {
  kernels().block_sparse_forward(shape, pattern, inputs, out, stats, team);
}

void block_sparse_backward(const BlockSparseHeadShape& shape, const SparsityPattern& pattern,
                           const BlockSparseHeadInputs& inputs, ConstMatrix out,
                           const SoftmaxStats& stats, ConstMatrix grad_out,
                           const BlockSparseHeadGradients& grad, Arena& arena, const Team& team) {
  kernels().block_sparse_backward(shape, pattern, inputs, out, stats, grad_out, grad, arena, team);
}

void inverse(int64_t m, int64_t iterations, ConstMatrix a, std::optional<float> norm, Matrix z,
             Arena& arena) {
  kernels().inverse(m, iterations, a, norm, z, arena);
}

void inverse_iterates(int64_t iterations, ConstMatrix a, std::optional<float> norm, Matrix z,
                      const InverseIterates& iterates) {
  kernels().inverse_iterates(iterations, a, norm, z, iterates);
}

float inverse_backward(int64_t iterations, ConstMatrix a, std::optional<float> norm, Matrix grad_z,
                       Matrix grad_a, const InverseIterates& iterates, Arena& arena) {
  return kernels().inverse_backward(iterations, a, norm, grad_z, grad_a, iterates, arena);
}

int64_t pad_after(int64_t kernel) { return kernels().pad_after(kernel); }

ConstMatrix pad_tile(ConstMatrix x, int64_t length, int64_t begin, int64_t rows, int64_t width,
                     int64_t kernel, KernelOrder order, Matrix copy) {
  return kernels().pad_tile(x, length, begin, rows, width, kernel, order, copy);
}

void add_convolution(const float* conv_weight, int64_t kernel, KernelOrder order,
                     ConstMatrix laid_out, int64_t rows, int64_t width, Matrix out) {
  kernels().add_convolution(conv_weight, kernel, order, laid_out, rows, width, out);
}

void add_conv_weight_grad(ConstMatrix gradient, ConstMatrix laid_out, int64_t kernel, int64_t rows,
                          int64_t width, float* sums) {
  kernels().add_conv_weight_grad(gradient, laid_out, kernel, rows, width, sums);
}

void tap_gradients(const float* sums, int64_t kernel, float* grad_taps) {
  kernels().tap_gradients(sums, kernel, grad_taps);
}

void channel_convolution(ConstMatrix taps, int64_t count, int64_t ahead, ConstMatrix x,
                         int64_t length, int64_t width, int64_t begin, int64_t rows, Matrix out) {
  kernels().channel_convolution(taps, count, ahead, x, length, width, begin, rows, out);
}

void add_tap_gradients(ConstMatrix gradient, ConstMatrix x, int64_t length, int64_t width,
                       int64_t count, int64_t ahead, Matrix sums) {
  kernels().add_tap_gradients(gradient, x, length, width, count, ahead, sums);
}

void transform_taps(const FourierPlan& plan, const BlockTaps<const float>& taps, int64_t lanes,
                    float* spectrum, float* scratch) {
  kernels().transform_taps(plan, taps, lanes, spectrum, scratch);
}

void filter_channels(const FourierPlan& plan, ConstMatrix x, int64_t length, int64_t lanes,
                     const float* spectrum, Matrix out, Cached cached, float* scratch) {
  kernels().filter_channels(plan, x, length, lanes, spectrum, out, cached, scratch);
}

void filter_channels_backward(const FourierPlan& plan, ConstMatrix x, ConstMatrix gradient,
                              int64_t length, int64_t lanes, const float* spectrum, Matrix grad_x,
                              Cached cached, float* sums, float* scratch) {
  kernels().filter_channels_backward(plan, x, gradient, length, lanes, spectrum, grad_x, cached,
                                     sums, scratch);
}

void spectrum_to_taps(const FourierPlan& plan, const float* sums, const BlockTaps<float>& to,
                      int64_t lanes, float* scratch) {
  kernels().spectrum_to_taps(plan, sums, to, lanes, scratch);
}

void scan_rows(const float* transition, int64_t states, bool conjugate, ScanOrder order, Matrix x,
               int64_t rows, float* carry) {
  kernels().scan_rows(transition, states, conjugate, order, x, rows, carry);
}

void add_transition_gradients(ConstMatrix x, ConstMatrix g, int64_t rows, int64_t states,
                              ScanOrder order, const float* before, float* sums) {
  kernels().add_transition_gradients(x, g, rows, states, order, before, sums);
}

void normalise_rows(const float* x, int64_t rows, int64_t width, const float* weight,
                    const float* bias, float eps, float* to, float* mean, float* inverse_sd) {
  kernels().normalise_rows(x, rows, width, weight, bias, eps, to, mean, inverse_sd);
}

void normalise_rows_backward(const float* x, const float* grad, int64_t rows, int64_t width,
                             const float* weight, const float* mean, const float* inverse_sd,
                             const float* past, float* grad_x, float* grad_weight,
                             float* grad_bias) {
  kernels().normalise_rows_backward(x, grad, rows, width, weight, mean, inverse_sd, past, grad_x,
                                    grad_weight, grad_bias);
}

void add_bias(float* x, int64_t rows, int64_t width, const float* bias) {
  kernels().add_bias(x, rows, width, bias);
}

void gelu_and_slope(float* x, int64_t count, float* to) { kernels().gelu_and_slope(x, count, to); }

void add_column_sums(ConstMatrix x, int64_t rows, int64_t width, float* sums,
                     const float* weights) {
  kernels().add_column_sums(x, rows, width, sums, weights);
}

void add_scaled_columns(ConstMatrix x, int64_t rows, int64_t width, const float* scales,
                        Matrix to) {
  kernels().add_scaled_columns(x, rows, width, scales, to);
}

void add_column_products(ConstMatrix a, ConstMatrix b, int64_t rows, int64_t width, float* sums) {
  kernels().add_column_products(a, b, rows, width, sums);
}

void gelu_of(Gelu form, const float* x, int64_t count, float* to) {
  kernels().gelu_of(form, x, count, to);
}

void gelu_backward(Gelu form, const float* x, const float* grad, int64_t count, float* to) {
  kernels().gelu_backward(form, x, grad, count, to);
}

void gate_rows(ConstMatrix value, ConstMatrix gate, int64_t rows, int64_t width, Matrix to) {
  kernels().gate_rows(value, gate, rows, width, to);
}

void gate_rows_backward(ConstMatrix value, ConstMatrix gate, ConstMatrix grad, int64_t rows,
                        int64_t width, Matrix grad_value, Matrix grad_gate) {
  kernels().gate_rows_backward(value, gate, grad, rows, width, grad_value, grad_gate);
}

void multiply_elements(const float* a, const float* b, int64_t count, float* to) {
  kernels().multiply_elements(a, b, count, to);
}

void from_bfloat16(Rows<const uint16_t> x, int64_t rows, int64_t width, Matrix to) {
  kernels().from_bfloat16(x, rows, width, to);
}

void to_bfloat16(ConstMatrix x, int64_t rows, int64_t width, Rows<uint16_t> to) {
  kernels().to_bfloat16(x, rows, width, to);
}

void add(const float* a, const float* b, int64_t count, float* to) {
  kernels().add(a, b, count, to);
}

void add_embeddings(const float* tokens, const float* positions, const int64_t* ids, int64_t first,
                    int64_t length, int64_t rows, int64_t width, float* to) {
  kernels().add_embeddings(tokens, positions, ids, first, length, rows, width, to);
}

void add_embedding_grads(const float* grad, const int64_t* ids, int64_t first, int64_t length,
                         int64_t rows, int64_t width, float* tokens, float* positions) {
  kernels().add_embedding_grads(grad, ids, first, length, rows, width, tokens, positions);
}

RowLoss cross_entropy_row(const float* logits, int64_t classes, int64_t label, float share,
                          float* gradient) {
  return kernels().cross_entropy_row(logits, classes, label, share, gradient);
}

void philox_keep_bits(uint64_t seed, int64_t first_block, int64_t blocks, uint32_t threshold,
                      uint16_t* bits) {
  kernels().philox_keep_bits(seed, first_block, blocks, threshold, bits);
}

void apply_keep_bits(const float* x, float* y, const uint16_t* bits, int64_t count, float scale) {
  kernels().apply_keep_bits_float(x, y, bits, count, scale);
}

void apply_keep_bits(const double* x, double* y, const uint16_t* bits, int64_t count,
                     double scale) {
  kernels().apply_keep_bits_double(x, y, bits, count, scale);
}

void apply_keep_bits(const uint16_t* x, uint16_t* y, const uint16_t* bits, int64_t count,
                     float scale) {
  kernels().apply_keep_bits_bfloat16(x, y, bits, count, scale);
}

}  // namespace lra::ops::cpu
