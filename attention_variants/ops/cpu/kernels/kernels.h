// What the sources of this folder hand out: a table of their functions for each instruction set
// that they are compiled for, of which one is chosen when the first is called. The functions in the
// headers beside this one call the chosen table's.
#pragma once

#include <span>

#include "attention_variants/ops/cpu/kernels/gemm/gemm_isa.h"
#include "attention_variants/ops/cpu/kernels/heads/block_sparse_attention.h"
#include "attention_variants/ops/cpu/kernels/heads/iterative_inverse.h"
#include "attention_variants/ops/cpu/kernels/heads/landmark_attention.h"
#include "attention_variants/ops/cpu/kernels/heads/landmark_matrix.h"
#include "attention_variants/ops/cpu/kernels/heads/linear_attention.h"
#include "attention_variants/ops/cpu/kernels/heads/lsh_attention.h"
#include "attention_variants/ops/cpu/kernels/heads/softmax_attention.h"
#include "attention_variants/ops/cpu/kernels/rows/channel_convolution.h"
#include "attention_variants/ops/cpu/kernels/rows/channel_fourier.h"
#include "attention_variants/ops/cpu/kernels/rows/cross_entropy.h"
#include "attention_variants/ops/cpu/kernels/rows/depthwise_conv.h"
#include "attention_variants/ops/cpu/kernels/rows/diagonal_scan.h"
#include "attention_variants/ops/cpu/kernels/rows/dropout_bits.h"
#include "attention_variants/ops/cpu/kernels/rows/gates.h"
#include "attention_variants/ops/cpu/kernels/rows/row_ops.h"

namespace lra::ops::cpu {

struct KernelTable {
  const char* isa;     // "baseline", "avx2", "avx512", "avx512_bf16"
  int64_t simd_width;  // floats of a register

  decltype(LRA_KERNELS::copy_keys)* copy_keys;
  decltype(LRA_KERNELS::softmax_forward)* softmax_forward;
  decltype(LRA_KERNELS::softmax_backward)* softmax_backward;

  decltype(LRA_KERNELS::linear_attention_forward)* linear_attention_forward;
  decltype(LRA_KERNELS::linear_attention_backward)* linear_attention_backward;
  decltype(LRA_KERNELS::feature_largest)* feature_largest;

  decltype(LRA_KERNELS::landmark_attention_forward)* landmark_attention_forward;
  decltype(LRA_KERNELS::landmark_attention_backward)* landmark_attention_backward;
  decltype(LRA_KERNELS::landmark_norm)* landmark_norm;
  decltype(LRA_KERNELS::landmark_norm_backward)* landmark_norm_backward;

  decltype(LRA_KERNELS::lsh_sort)* lsh_sort;
  decltype(LRA_KERNELS::lsh_forward)* lsh_forward;
  decltype(LRA_KERNELS::lsh_backward)* lsh_backward;

  decltype(LRA_KERNELS::block_sparse_forward)* block_sparse_forward;
  decltype(LRA_KERNELS::block_sparse_backward)* block_sparse_backward;

  // These and the next group are called through the table by tests/bench/matrix_bench.cpp alone.
  decltype(LRA_KERNELS::inverse)* inverse;
  decltype(LRA_KERNELS::inverse_iterates)* inverse_iterates;
  decltype(LRA_KERNELS::inverse_backward)* inverse_backward;

  decltype(LRA_KERNELS::pad_after)* pad_after;
  decltype(LRA_KERNELS::pad_tile)* pad_tile;
  decltype(LRA_KERNELS::add_convolution)* add_convolution;
  decltype(LRA_KERNELS::add_conv_weight_grad)* add_conv_weight_grad;
  decltype(LRA_KERNELS::tap_gradients)* tap_gradients;

  decltype(LRA_KERNELS::channel_convolution)* channel_convolution;
  decltype(LRA_KERNELS::add_tap_gradients)* add_tap_gradients;
  decltype(LRA_KERNELS::transform_taps)* transform_taps;
  decltype(LRA_KERNELS::filter_channels)* filter_channels;
  decltype(LRA_KERNELS::filter_channels_backward)* filter_channels_backward;
  decltype(LRA_KERNELS::spectrum_to_taps)* spectrum_to_taps;
  decltype(LRA_KERNELS::scan_rows)* scan_rows;
  decltype(LRA_KERNELS::add_transition_gradients)* add_transition_gradients;

  decltype(LRA_KERNELS::normalise_rows)* normalise_rows;
  decltype(LRA_KERNELS::normalise_rows_backward)* normalise_rows_backward;
  decltype(LRA_KERNELS::add_bias)* add_bias;
  decltype(LRA_KERNELS::gelu_and_slope)* gelu_and_slope;
  decltype(LRA_KERNELS::add_column_sums)* add_column_sums;
  decltype(LRA_KERNELS::add_scaled_columns)* add_scaled_columns;
  decltype(LRA_KERNELS::add_column_products)* add_column_products;
  decltype(LRA_KERNELS::multiply_elements)* multiply_elements;
  decltype(LRA_KERNELS::from_bfloat16)* from_bfloat16;
  decltype(LRA_KERNELS::to_bfloat16)* to_bfloat16;
  decltype(LRA_KERNELS::add)* add;
  decltype(LRA_KERNELS::add_embeddings)* add_embeddings;
  decltype(LRA_KERNELS::add_embedding_grads)* add_embedding_grads;

  decltype(LRA_KERNELS::cross_entropy_row)* cross_entropy_row;

  decltype(LRA_KERNELS::gelu_of)* gelu_of;
  decltype(LRA_KERNELS::gelu_backward)* gelu_backward;
  decltype(LRA_KERNELS::gate_rows)* gate_rows;
  decltype(LRA_KERNELS::gate_rows_backward)* gate_rows_backward;

  decltype(LRA_KERNELS::philox_keep_bits)* philox_keep_bits;
  void (*apply_keep_bits_float)(const float* x, float* y, const uint16_t* bits, int64_t count,
                                float scale);
  void (*apply_keep_bits_double)(const double* x, double* y, const uint16_t* bits, int64_t count,
                                 double scale);
  void (*apply_keep_bits_bfloat16)(const uint16_t* x, uint16_t* y, const uint16_t* bits,
                                   int64_t count, float scale);

  void (*round_to_bfloat16)(const float* x, int64_t count, float* to);
  // Null where the set has none.
  GemmKernel* gemm_f32_registers;
  GemmKernel* gemm_bf16_registers;
  GemmKernel* gemm_bf16_tiles;  // for processors with AMX
  GemmKernel* gemm_bf16_emulated_tiles;
};

/// The best set that this processor runs, or the one that the environment's LRA_CPU_ISA names.
/// Throws UsageError where there is none of that name.
const KernelTable& kernels();

/// That one, after all lower ones.
std::span<const KernelTable* const> kernel_tables();

}  // namespace lra::ops::cpu

#ifdef LRA_ISA

namespace lra::ops::cpu::LRA_ISA {
extern const KernelTable table;
}

#endif
