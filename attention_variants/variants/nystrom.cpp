// Nyström attention: out = F (Z (B V)) + conv(V) with F = softmax(s Q K̃ᵀ), A = softmax(s Q̃ K̃ᵀ), B =
// softmax(s Q̃ Kᵀ), Z ≈ A⁺, where Q̃, K̃ [m,d] are landmarks of Q and K.
//
// Xiong et al., "Nyströmformer: A Nyström-Based Algorithm for Approximating Self-Attention", AAAI
// 2021. Cost: O(N m d + m³) time. Memory O(N d): B V and F X are themselves softmax attentions,
// with m queries and with m keys, and go through the fused kernel, so neither F nor B is ever
// stored.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "attention_variants/ops/landmark_attention.h"
#include "attention_variants/ops/padding.h"
#include "attention_variants/ops/reference/depthwise_conv.h"
#include "attention_variants/ops/reference/landmark_attention.h"
#include "attention_variants/ops/softmax_attention.h"
#include "attention_variants/projected_attention.h"
#include "attention_variants/registry.h"

namespace lra {
namespace {

enum class PseudoInverse { iterative, exact };  // exact: by SVD
constexpr auto names(PseudoInverse) { return std::array{"iterative", "exact"}; }

struct NystromOptions {
  int64_t num_landmarks = 64;  // m; N <= m is computed exactly
  int64_t pinv_iterations = 6;
  int64_t conv_kernel_size = 35;  // K; 0 = no convolution
  PseudoInverse pinv = PseudoInverse::iterative;
  ops::LandmarkKind landmarks = ops::LandmarkKind::segment_means;
  // Of the iteration; global couples the samples of a batch.
  ops::InverseStart init = ops::InverseStart::per_matrix;
  // How padded positions enter the landmarks.
  ops::LandmarkPadding padding = ops::LandmarkPadding::masked;

  template <class Fields>
  void fields(Fields& f) {
    f("num_landmarks", num_landmarks, at_least(1));
    f("pinv_iterations", pinv_iterations, at_least(0));
    f("conv_kernel_size", conv_kernel_size, at_least(0));
    f("pinv", pinv);
    f("landmarks", landmarks);
    f("init", init);
    f("padding", padding);
  }
};

// One kernel a head; the module exists for its state name, conv.weight.
struct ConvWeight : torch::nn::Module {
  ConvWeight(int64_t heads, int64_t kernel) {
    const double bound =
        1 / std::sqrt(static_cast<double>(kernel));  // as torch.nn.Conv2d initialises itself
    weight =
        register_parameter("weight", torch::empty({heads, 1, kernel, 1}).uniform_(-bound, bound));
  }
  torch::Tensor weight;  // [H,1,K,1]
};

class NystromAttention : public ProjectedAttention {
 public:
  NystromAttention(const AttentionContext& context, const NystromOptions& options)
      : ProjectedAttention(context), options_(options) {
    if (options_.conv_kernel_size > 0) {
      conv_ = register_module(
          "conv", std::make_shared<ConvWeight>(context.heads, options_.conv_kernel_size));
    }
  }

  torch::Tensor attend(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                       const torch::Tensor& mask) override {
    check_attend_inputs(q, k, v, mask);
    if (conv_ != nullptr && q.size(1) != context_.heads) {
      throw Error(fmt::format("nystrom was made for {} heads, not {}", context_.heads, q.size(1)));
    }
    if (!is_exact(q.size(2))) {
      return ops::landmark_attention(context_.kernels,
                                     {q, k, v, mask, conv_weight(q), landmark_options()});
    }
    const torch::Tensor values =
        options_.padding == ops::LandmarkPadding::ignored ? v : ops::zero_padding(v, mask);
    torch::Tensor out = ops::softmax_attention(context_.kernels, {q, k, values, mask, mask});
    if (conv_ != nullptr) out = out + ops::reference::depthwise_conv(values, conv_->weight);
    return ops::zero_padded_rows(out, mask);
  }

  bool reads_padding() const override { return options_.padding == ops::LandmarkPadding::ignored; }

  // Random landmarks are drawn on the host in every pass.
  bool capturable() const override {
    // The exact inverse reads on the host how it went.
    return options_.landmarks != ops::LandmarkKind::random && options_.pinv != PseudoInverse::exact;
  }

  json options() const override { return write_fields(options_); }

  int64_t analytic_bytes(int64_t batch, int64_t length, int64_t element_size,
                         bool training) const override {
    if (training) return -1;  // depends on when autograd frees what
    const int64_t rows = batch * context_.heads, d = context_.head_dim;
    if (!is_exact(length)) {
      return ops::landmark_attention_bytes(context_.kernels, shape(batch, length, element_size));
    }
    const int64_t vector = rows * length * d * element_size;  // one [B,H,N,d]
    const int64_t v =
        options_.padding == ops::LandmarkPadding::ignored ? 0 : 1;  // with padding zeroed
    const int64_t product =
        v * vector +
        ops::softmax_attention_bytes(context_.kernels, {rows, length, length, d, d, element_size});
    if (conv_ == nullptr) return product;
    // The attention's output stands while the convolution runs.
    return std::max(product, (v + 1) * vector + ops::reference::depthwise_conv_bytes(
                                                    batch, context_.heads, length, d,
                                                    options_.conv_kernel_size, element_size));
  }

  int64_t flops(int64_t batch, int64_t length) const override {
    if (!is_exact(length)) return ops::landmark_attention_flops(shape(batch, length));
    const int64_t d = context_.head_dim, conv = 2 * length * d * options_.conv_kernel_size;
    return batch * context_.heads * (4 * length * length * d + conv);
  }

 private:
  ops::LandmarkShape shape(int64_t batch, int64_t length, int64_t element_size = 4) const {
    return {.batch = batch,
            .heads = context_.heads,
            .length = length,
            .head_dim = context_.head_dim,
            .conv_kernel = options_.conv_kernel_size,
            .element_size = element_size,
            .options = landmark_options()};
  }

  // As many landmarks as tokens, or more, are the tokens themselves.
  bool is_exact(int64_t length) const { return length <= options_.num_landmarks; }

  ops::LandmarkOptions landmark_options() const {
    return {.landmarks = options_.num_landmarks,
            .kind = options_.landmarks,
            .seed = context_.seed,
            .exact_inverse = options_.pinv == PseudoInverse::exact,
            .iterations = options_.pinv_iterations,
            .start = options_.init,
            .padding = options_.padding};
  }

  // [H,K]
  torch::Tensor conv_weight(const torch::Tensor& like) const {
    return conv_ == nullptr ? torch::empty({context_.heads, 0}, like.options())
                            : conv_->weight.view({context_.heads, options_.conv_kernel_size});
  }

  const NystromOptions options_;
  std::shared_ptr<ConvWeight> conv_;
};

[[maybe_unused]] const bool nystrom_registered =
    register_attention<NystromAttention, NystromOptions>({
        .name = "nystrom",
        .title = "Nyström",
        .paper = "Xiong et al., AAAI 2021",
        .complexity = "O(N m)",
        .softmax = Softmax::approximate,
        .budget = "num_landmarks",
        .linear = true,
        .state = "conv.weight [H,1,K,1]",
        .why_unrotated = "its landmarks average queries and keys of many positions",
        .peer = "transformers, nystrom-attention",
        .approximation = {{"conv_kernel_size", 0}},
        .couples_batch = {{"init", "global"}},
        .read_where = {{"pinv_iterations", "pinv", "iterative"}, {"init", "pinv", "iterative"}},
        .landmark_study = true,
    });

}  // namespace
}  // namespace lra
