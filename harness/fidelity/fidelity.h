// How well approximations follow exact softmax attention: the four experiments of `lra fidelity`.
#pragma once

#include <array>
#include <filesystem>
#include <vector>

#include "attention_variants/registry.h"
#include "attention_variants/torch.h"

namespace lra::fidelity {

struct FidelityRequest {
  std::vector<int64_t> experiments;  // of 1 to 4, in this order
  std::vector<int64_t> lengths;      // empty: each experiment's own
  int64_t head_dim = 0;              // of random inputs; 0 = each experiment's own
  int64_t trials = 0;                // 0 = each experiment's own
  uint64_t seed = 0;                 // of random inputs; trial t draws its tables from seed + t
  std::vector<AttentionSpec> attentions;  // of experiment 4; empty: all on softmax's scale
  std::filesystem::path run;              // trained inputs for experiments 3 and 4; empty: none
  std::filesystem::path data;             // of the run; empty: where it was trained
  torch::Device device = torch::kCPU;
  int64_t threads = 1;       // as set already; for the record
  int64_t memory_limit = 0;  // bytes of CPU tensors beyond which a cell is oom; 0 = none
  double seconds = 0.5;      // most time for the samples of a timed cell
  std::filesystem::path out;
};

/// The landmarks of experiment 3, each at lengths of as many or more.
inline constexpr std::array<int64_t, 3> kIterationLandmarks = {32, 64, 128};

struct FidelityEnd {
  int64_t cells = 0;                 // that the file holds
  std::vector<std::string> crashed;  // those of this call, "nystrom at length 512 (...): why"
};

/// Runs the experiments and appends a line a cell to `out`, leaving out those that it holds:
/// 1. Raw scores: A = QKᵀ without softmax (float64, n = 50, d = 10) against Q K̃ᵀ (Q̃ K̃ᵀ)⁺ Q̃ Kᵀ with
///    the first m rows as landmarks, m = 1..n: "scores", ‖A − Ã‖_F.
/// 2. Softmax attention: A = softmax(sQKᵀ) (float64, n = 256, d = 32) against F Z B with every kind
///    of landmarks and both inverses, m = 1..n: relative errors of "matrix" and "output".
/// 3. The inverse's iteration, 1..20 steps, with m = 32, 64, 128 (n = 1024, d = 32): "inverse",
///    ‖AZ − I‖_F as the mean over heads, and "output", in float32, in bfloat16 as the variant runs
///    (A and the iteration in float32) and in bfloat16 throughout; "condition", of A, whose samples
///    are those of every trial and head.
/// 4. Every attention with a budget option, or that approaches softmax or is softmax, at n = 512 to
///    8192 (float32, 2 heads of 32): relative error of the "output" over powers of two of its
///    budget up to n, with time and memory. Budgets that take over kMostWork times exact
///    attention's operations are left out; where all do, one cell says so. Parameters are as
///    initialised.
/// All but the first two also on the trained inputs. What cannot run is a cell with its status and
/// reason; where memory for the inputs of a length runs out, one an attention, without a budget.
/// Cells that crashed in an earlier call are tried again. Throws Interrupted after Ctrl-C.
FidelityEnd run_fidelity(const FidelityRequest& request);

inline constexpr double kMostWork = 8;

/// Q K̃ᵀ (Q̃ K̃ᵀ)⁺ Q̃ Kᵀ [..,n,n] of q and k [..,n,d] with their first m rows as Q̃ and K̃.
torch::Tensor raw_score_approximation(const torch::Tensor& q, const torch::Tensor& k, int64_t m);

/// Powers of two up to `length`, and `length`; from 8, or from an eighth of the option's default
/// where that is less, but at least 1.
std::vector<int64_t> swept_budgets(int64_t default_value, int64_t length);

}  // namespace lra::fidelity
