// The table of one instruction set.
#include "attention_variants/ops/cpu/kernels/kernels.h"
#include "attention_variants/ops/cpu/kernels/rows/simd.h"

namespace lra::ops::cpu::LRA_ISA {

#define LRA_TEXT_OF(name) #name
#define LRA_TEXT(name) LRA_TEXT_OF(name)

const KernelTable table = {
    .isa = LRA_TEXT(LRA_ISA),
    .simd_width = kSimdWidth,
    .copy_keys = copy_keys,
    .softmax_forward = softmax_forward,
    .softmax_backward = softmax_backward,
    .linear_attention_forward = linear_attention_forward,
    .linear_attention_backward = linear_attention_backward,
    .feature_largest = feature_largest,
    .landmark_attention_forward = landmark_attention_forward,
    .landmark_attention_backward = landmark_attention_backward,
    .landmark_norm = landmark_norm,
    .landmark_norm_backward = landmark_norm_backward,
    .lsh_sort = lsh_sort,
    .lsh_forward = lsh_forward,
    .lsh_backward = lsh_backward,
    .block_sparse_forward = block_sparse_forward,
    .block_sparse_backward = block_sparse_backward,
    .inverse = inverse,
    .inverse_iterates = inverse_iterates,
    .inverse_backward = inverse_backward,
    .pad_after = pad_after,
    .pad_tile = pad_tile,
    .add_convolution = add_convolution,
    .add_conv_weight_grad = add_conv_weight_grad,
    .tap_gradients = tap_gradients,
    .channel_convolution = channel_convolution,
    .add_tap_gradients = add_tap_gradients,
    .transform_taps = transform_taps,
    .filter_channels = filter_channels,
    .filter_channels_backward = filter_channels_backward,
    .spectrum_to_taps = spectrum_to_taps,
    .scan_rows = scan_rows,
    .add_transition_gradients = add_transition_gradients,
    .normalise_rows = normalise_rows,
    .normalise_rows_backward = normalise_rows_backward,
    .add_bias = add_bias,
    .gelu_and_slope = gelu_and_slope,
    .add_column_sums = add_column_sums,
    .add_scaled_columns = add_scaled_columns,
    .add_column_products = add_column_products,
    .multiply_elements = multiply_elements,
    .from_bfloat16 = from_bfloat16,
    .to_bfloat16 = to_bfloat16,
    .add = add,
    .add_embeddings = add_embeddings,
    .add_embedding_grads = add_embedding_grads,
    .cross_entropy_row = cross_entropy_row,
    .gelu_of = gelu_of,
    .gelu_backward = gelu_backward,
    .gate_rows = gate_rows,
    .gate_rows_backward = gate_rows_backward,
    .philox_keep_bits = philox_keep_bits,
    .apply_keep_bits_float = apply_keep_bits,
    .apply_keep_bits_double = apply_keep_bits,
    .apply_keep_bits_bfloat16 = apply_keep_bits,
    .round_to_bfloat16 = round_to_bfloat16,
#if defined(__AVX2__)
    .gemm_f32_registers = gemm_f32_registers,
#else
    .gemm_f32_registers = nullptr,
#endif
    .gemm_bf16_registers = nullptr,
    .gemm_bf16_tiles = nullptr,
    .gemm_bf16_emulated_tiles = nullptr,
};

}  // namespace lra::ops::cpu::LRA_ISA
