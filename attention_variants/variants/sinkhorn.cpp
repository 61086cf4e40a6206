// Sparse Sinkhorn attention, as the Long Range Arena has it: a block of b positions attends to
// itself, and to the block that a learned soft sorting puts in its place.
//   s_j = Σ of the keys in block j;  L = s W + bias [n,n], n = ⌈N/b⌉, W's columns cut to n;
//   P = softmax of L over its columns, or its Sinkhorn normalisation, without the Gumbel noise that
//   public code adds to L in training;
//   K'_i = Σ_j P[j,i] K_j, V' likewise: blocks are mixed place by place;
//   out = softmax(Q Kᵀ/√d) V + softmax(Q K'ᵀ/√d) V', each within the block.
// A place of a sorted block is seen where its mask, mixed by P as well, is above ½ Σ_j P[j,i]:
// where more than half of what stands in for it are tokens, by a ten-thousandth, as saturated
// softmaxes tie at half but for rounding. A query that sees no place of the sorted block has from
// it zero.
//
// Tay et al., "Sparse Sinkhorn Attention", ICML 2020. Cost: O(N b d + N² d / b) time, the second
// term for mixing n blocks into n; memory O(N d + (N/b)²): no attention weights are stored, and the
// sorting is of blocks.
//
// The arena's released code (lra_benchmarks/models/sinkhorn_transformer) multiplies the sum of P
// over its columns into the sum over all blocks: its einsum has two free letters. With a softmax,
// whose sum is 1, nothing is sorted and W gets no gradient. Its blocks are strided, and its mask
// weight is compared with 0. Here is what the axes of its P say, key blocks by query blocks: block
// j goes where row j sends it, so that under the softmax, which is over the places that it may go
// to, what a place receives does not sum to 1. sinkhorn-transformer (PyPI) reads P the other way:
// place i takes a mean of blocks by row i.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "attention_variants/ops/autocast.h"
#include "attention_variants/ops/padding.h"
#include "attention_variants/ops/reference/account.h"
#include "attention_variants/projected_attention.h"
#include "attention_variants/registry.h"

namespace lra {
namespace {

// Of what stands in for a place, which then counts as a token; not the same as half in any type.
constexpr double kHalf = 0.5001;

enum class BlockSort { softmax, sinkhorn };  // sinkhorn: rows and columns normalised alternately
constexpr auto names(BlockSort) { return std::array{"softmax", "sinkhorn"}; }

struct SinkhornOptions {
  int64_t block = 64;  // b
  BlockSort sort = BlockSort::softmax;
  int64_t iterations = 8;     // of sort=sinkhorn
  double temperature = 0.75;  // of sort=sinkhorn
  int64_t max_blocks = 0;     // columns of W; 0 = ⌈max_length/b⌉

  template <class Fields>
  void fields(Fields& f) {
    f("block", block, at_least(1));
    f("sort", sort);
    f("iterations", iterations, at_least(1));
    f("temperature", temperature, more_than(0));
    f("max_blocks", max_blocks, at_least(0));
  }
};

// The sorting network; a module for its state names, sort.weight and sort.bias. Initialised as
// torch.nn.Linear.
struct SortNetwork : torch::nn::Module {
  SortNetwork(int64_t width, int64_t columns) {
    const double bound = 1 / std::sqrt(static_cast<double>(width));
    weight = register_parameter("weight", torch::empty({width, columns}).uniform_(-bound, bound));
    bias = register_parameter("bias", torch::empty({columns}).uniform_(-bound, bound));
  }
  torch::Tensor weight;  // W [d,max_blocks]
  torch::Tensor bias;    // [max_blocks]
};

// Softmax attention within each block: q, k, v [B*H,n,b,d], keys [B*H,n,b] (true = seen). A block
// without any key sees all, and the caller drops its result.
torch::Tensor within_blocks(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                            const torch::Tensor& keys) {
  return at::scaled_dot_product_attention(q, k, v, ops::nonempty_rows(keys).unsqueeze(2));
}

class SinkhornAttention : public ProjectedAttention {
 public:
  SinkhornAttention(const AttentionContext& context, const SinkhornOptions& options)
      : ProjectedAttention(context),
        options_(options),
        max_blocks_(options.max_blocks > 0 ? options.max_blocks : blocks(context.max_length)) {
    // One block has nothing to sort, and the parameters would have no gradient.
    if (max_blocks_ > 1) {
      sort_ = register_module("sort", std::make_shared<SortNetwork>(context.head_dim, max_blocks_));
    }
  }

  torch::Tensor attend(const torch::Tensor& q_given, const torch::Tensor& k_given,
                       const torch::Tensor& v_given, const torch::Tensor& mask) override {
    check_attend_inputs(q_given, k_given, v_given, mask);
    if (sort_ != nullptr && q_given.size(3) != context_.head_dim) {
      throw Error(fmt::format("sinkhorn was made for heads of width {}, not {}", context_.head_dim,
                              q_given.size(3)));
    }
    // The sorting needs float32; the attention itself keeps the type it is given, but on a CPU,
    // where LibTorch's takes more than twice as long in bfloat16.
    const ops::NoAutocast guard;
    const bool widened = q_given.is_cpu() && q_given.scalar_type() == torch::kBFloat16;
    const torch::ScalarType type = widened ? torch::kFloat : q_given.scalar_type();
    const int64_t batch = q_given.size(0), heads = q_given.size(1), length = q_given.size(2);
    const int64_t n = blocks(length), block = block_of(length);
    if (n > max_blocks_) {
      throw Unsupported(
          fmt::format("sinkhorn sorts at most {} blocks of {}, and {} positions are "
                      "{}: raise max_blocks or block",
                      max_blocks_, options_.block, length, n));
    }
    const torch::Tensor real = torch::constant_pad_nd(mask, {0, n * block - length})
                                   .view({batch, 1, n, block});  // [B,1,n,b]
    const torch::Tensor q = cut(q_given.to(type), mask), k = cut(k_given.to(type), mask),
                        v = cut(v_given.to(type), mask);
    const torch::Tensor own =
        within_blocks(q, k, v, real.expand({-1, heads, -1, -1}).flatten(0, 1));
    torch::Tensor out;
    if (sort_ == nullptr) {
      out = 2 * own;  // P = 1: the sorted block is the block itself
    } else {
      const torch::Tensor p = mixing(k);  // [B*H,n,n], at least float32
      const torch::Tensor shares = real.to(p.scalar_type()) - kHalf;
      const torch::Tensor seen =
          torch::matmul(p.detach().unflatten(0, {batch, heads}), shares).flatten(0, 1).gt(0);
      const torch::Tensor weights = p.to(q.scalar_type());
      const auto mixed = [&](const torch::Tensor& x) {
        return torch::matmul(weights, x.flatten(2)).view(x.sizes());
      };
      const torch::Tensor sorted = within_blocks(q, mixed(k), mixed(v), seen);
      const torch::Tensor nothing =
          seen.any(-1).logical_not().unsqueeze(-1).unsqueeze(-1);  // [B*H,n,1,1]
      out = own + sorted.masked_fill(nothing, 0);
    }
    // Fused kernels of GPUs leave heads and positions in another order.
    out = out.reshape({batch, heads, n * block, q_given.size(3)}).narrow(2, 0, length);
    return ops::zero_padded_rows(out.to(q_given.scalar_type()), mask);
  }

  bool capturable() const override { return true; }

  json options() const override { return write_fields(options_); }

  int64_t analytic_bytes(int64_t batch, int64_t length, int64_t element_size,
                         bool training) const override {
    if (training) return -1;  // depends on when autograd frees what
    const int64_t rows = batch * context_.heads, d = context_.head_dim, n = blocks(length),
                  block = block_of(length), vector = rows * n * block * d * element_size;
    const int64_t fused =
        ops::reference::fused_attention_bytes(rows * n, block, block, d, element_size);
    // q, k and v in one block, and what it makes of itself, twice where it is doubled.
    if (sort_ == nullptr) return std::max(4 * vector + fused, 5 * vector);
    // q, k and v in blocks, and what each makes of itself; the sorted k and v, what they make, and
    // the weights they were sorted by.
    return 7 * vector + fused + rows * n * n * std::max<int64_t>(element_size, 4);
  }

  int64_t flops(int64_t batch, int64_t length) const override {
    const int64_t n = blocks(length), b = block_of(length), d = context_.head_dim;
    const int64_t within = 4 * n * b * b * d;
    if (sort_ == nullptr) return batch * context_.heads * within;
    const int64_t sorting = 2 * n * n * d + 2 * n * n * b;  // L, and the mask mixed
    const int64_t mixing = 4 * n * n * b * d;               // K' and V'
    return batch * context_.heads * (2 * within + sorting + mixing);
  }

 private:
  int64_t blocks(int64_t length) const { return (length - 1) / options_.block + 1; }
  // A block alone ends with the inputs.
  int64_t block_of(int64_t length) const { return std::min(options_.block, length); }

  // x [B,H,N,d] -> [B*H,n,b,d], fresh, with padded positions and those past N zero.
  torch::Tensor cut(const torch::Tensor& x, const torch::Tensor& mask) const {
    const int64_t n = blocks(x.size(2)), block = block_of(x.size(2)),
                  missing = n * block - x.size(2);
    torch::Tensor fresh = missing == 0 ? x.clone(at::MemoryFormat::Contiguous)
                                       : torch::constant_pad_nd(x, {0, 0, 0, missing}).contiguous();
    fresh.narrow(2, 0, x.size(2)).masked_fill_(mask.logical_not().unsqueeze(1).unsqueeze(-1), 0);
    return fresh.view({x.size(0) * x.size(1), n, block, x.size(3)});
  }

  // Pᵀ [B*H,n,n], from k [B*H,n,b,d] with padding zeroed: row i holds the weights of the blocks
  // that stand in for block i. At least float32 whatever the type of the rest: its errors would be
  // those of whole blocks.
  torch::Tensor mixing(const torch::Tensor& k) const {
    const auto type = ops::wide_type(k.scalar_type());
    const int64_t n = k.size(1);
    const torch::Tensor sums = k.sum(2, /*keepdim=*/false, type);  // [B*H,n,d]
    torch::Tensor logits = torch::matmul(sums, sort_->weight.narrow(1, 0, n).to(type)) +
                           sort_->bias.narrow(0, 0, n).to(type);  // [B*H,n,n]
    if (options_.sort == BlockSort::softmax) return torch::softmax(logits, -1).transpose(1, 2);
    logits = logits / options_.temperature;
    for (int64_t i = 0; i < options_.iterations; ++i)
      logits = torch::log_softmax(torch::log_softmax(logits, 2), 1);
    return logits.exp().transpose(1, 2);
  }

  const SinkhornOptions options_;
  const int64_t max_blocks_;
  std::shared_ptr<SortNetwork> sort_;  // none where there is one block
};

[[maybe_unused]] const bool sinkhorn_registered =
    register_attention<SinkhornAttention, SinkhornOptions>({
        .name = "sinkhorn",
        .title = "Sinkhorn",
        .paper = "Tay et al., ICML 2020",
        .complexity = "O(N b + N²/b), blocks of b; memory O(N + (N/b)²)",
        .softmax = Softmax::different,
        .linear = true,  // (N/b)² is little beside N·d up to N = b²·d
        .state = "sort.weight [d,max_blocks], sort.bias [max_blocks]",
        .length_bound = true,
        .why_unrotated = "it adds up keys of many positions to sort and to mix blocks",
        .peer = "the formula, in float64",
        .read_where = {{"iterations", "sort", "sinkhorn"}, {"temperature", "sort", "sinkhorn"}},
    });

}  // namespace
}  // namespace lra
