#include "attention_variants/ops/cuda/kernel_table.h"

extern "C" const lra::ops::cuda::KernelTable* lra_cuda_kernels() {
  using namespace lra::ops::cuda;  // NOLINT
  static const KernelTable table = {
      launch_norm_rows,
      launch_norm_rows_backward,
      launch_norm_mean,
      launch_column_parts,
      launch_sum_parts,
      launch_cross_entropy,
      launch_landmarks_forward,
      launch_landmarks_backward,
      launch_dropout_rows_forward,
      launch_dropout_rows_backward,
      launch_embedding_forward,
      launch_embedding_backward,
      launch_landmark_matrix_forward,
      launch_landmark_matrix_backward,
      launch_inverse_forward,
      launch_inverse_backward,
      launch_softmax_forward,
      launch_softmax_backward,
      launch_depthwise_conv,
      launch_depthwise_conv_weight_grad,
      launch_block_sparse_forward,
      launch_block_sparse_backward,
      launch_lsh_forward,
      launch_lsh_backward,
      launch_linear_attention_forward,
      launch_linear_attention_backward,
  };
  return &table;
}
