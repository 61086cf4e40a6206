// How operators are benchmarked: fused and reference, forward and with their backward, as rates and
// as parts of what this machine reaches.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "attention_variants/ops/types.h"
#include "attention_variants/torch.h"

namespace lra {

using ops::Kernels;

/// One size of an operator, its inputs made.
struct BenchWork {
  std::function<void()> forward, training;  // training: forward and backward
  double flops = 0;        // of one forward, a multiply-add is 2, pointwise work not counted
  double least_bytes = 0;  // that one forward must move: inputs, weights and output
};

/// The work of a function of tensors: training lets its gradient, drawn once, flow to `leaves`.
BenchWork differentiable(const std::function<torch::Tensor(bool training)>& function,
                         std::vector<torch::Tensor> leaves, double flops);

/// An operator in sizes; `make` is called before each measurement, with its size and the path.
struct BenchOperator {
  std::string name, size_name;
  std::vector<int64_t> sizes;
  std::function<BenchWork(int64_t size, Kernels kernels)> make;
};

/// The operators of a file, to be registered by main().
std::vector<BenchOperator> attention_operators();
std::vector<BenchOperator> matrix_operators();
std::vector<BenchOperator> model_operators();

/// Registers those of team_bench.cpp.
void register_teams();

/// The sizes of a BERT-base layer, batch 1.
inline constexpr int64_t kHeads = 12, kWidth = 64;

/// x [B,H,N,d] standard normal.
torch::Tensor head_vectors(int64_t length);

}  // namespace lra
