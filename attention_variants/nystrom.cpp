// Nyström attention: out = F (Z (B V)) + conv(V) with F = softmax(s Q K̃ᵀ), A = softmax(s Q̃ K̃ᵀ), B =
// softmax(s Q̃ Kᵀ), Z ≈ A⁺, where Q̃, K̃ [m,d] are landmarks of Q and K.
//
// Xiong et al., "Nyströmformer: A Nyström-Based Algorithm for Approximating Self-Attention", AAAI
// 2021. Cost: O(N m d + m³) time. Memory O(N d): B V and F X are themselves softmax attentions,
// with m queries and with m keys, and go through the fused kernel, so neither F nor B is ever
// stored.
#include <cmath>
#include <limits>

#include "attention_variants/attention.h"
#include "attention_variants/depthwise_conv.h"
#include "attention_variants/softmax.h"

namespace lra {
namespace {

struct NystromOptions {
  int64_t num_landmarks = 64;  // m; N <= m is computed exactly
  int64_t pinv_iterations = 6;
  int64_t conv_kernel_size = 35;            // K; 0 = no convolution
  std::string pinv = "iterative";           // or exact: by SVD
  std::string landmarks = "segment_means";  // what Q̃ and K̃ are made of
  std::string init = "per_matrix";  // of the iteration; global couples the samples of a batch
  std::string padding = "masked";   // how padded positions enter the landmarks

  template <class Fields>
  void fields(Fields& f) {
    f("num_landmarks", num_landmarks, at_least(1));
    f("pinv_iterations", pinv_iterations, at_least(0));
    f("conv_kernel_size", conv_kernel_size, at_least(0));
    f("pinv", pinv, one_of({"iterative", "exact"}));
    f("landmarks", landmarks, one_of({"segment_means", "adaptive_pool", "strided", "random"}));
    f("init", init, one_of({"per_matrix", "global"}));
    f("padding", padding, one_of({"masked", "zeroed", "ignored"}));
  }
};

// The landmarks of a batch. Samples may have fewer real ones than m; which are real is the same for
// Q and K.
struct Landmarks {
  torch::Tensor q, k;  // [B,H,m,d]
  torch::Tensor real;  // [B,m] bool; undefined = all
};

// Means over m segments of positions: x [B,H,N,d] -> [B,H,m,d]. The first m - N mod m segments have
// ⌊N/m⌋ positions, the others one more.
torch::Tensor segment_means(const torch::Tensor& x, int64_t m) {
  const int64_t size = x.size(2) / m, longer = x.size(2) % m, shorter = m - longer;
  const torch::Tensor head = x.narrow(2, 0, shorter * size).unflatten(2, {shorter, size}).mean(3);
  if (longer == 0) return head;
  const torch::Tensor tail =
      x.narrow(2, shorter * size, longer * (size + 1)).unflatten(2, {longer, size + 1}).mean(3);
  return torch::cat({head, tail}, 2);
}

// Means over the overlapping segments ⌊iN/m⌋..⌈(i+1)N/m⌉.
torch::Tensor adaptive_means(const torch::Tensor& x, int64_t m) {
  return torch::adaptive_avg_pool2d(x, {m, x.size(3)});
}

// 1 on the diagonal, times `value`: broadcasts over [B,H,m,m].
torch::Tensor identity(double value, const torch::Tensor& like) {
  return torch::eye(like.size(-1), like.options()) * value;
}

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

  torch::Tensor attend(const torch::Tensor& q_given, const torch::Tensor& k_given,
                       const torch::Tensor& v_given, const torch::Tensor& mask) override {
    check_attend_inputs(q_given, k_given, v_given, mask);
    torch::Tensor q = q_given, k = k_given, v = v_given;
    if (options_.padding != "ignored") {
      q = zero_padding(q, mask);
      k = zero_padding(k, mask);
      v = zero_padding(v, mask);
    }
    torch::Tensor out = q.size(2) <= options_.num_landmarks ? softmax_attention(q, k, v, mask)
                                                            : approximate(q, k, v, mask);
    out = out.to(q.scalar_type());
    if (conv_ != nullptr) out = out + depthwise_conv(v, conv_->weight);
    return zero_padded_rows(out, mask);
  }

  json options() const override { return write_fields(options_); }

  int64_t analytic_bytes(int64_t batch, int64_t length, int64_t element_size,
                         bool training) const override {
    if (training) return -1;  // depends on when autograd frees what
    const int64_t rows = batch * context_.heads;
    const int64_t vector = rows * length * context_.head_dim * element_size;  // one [B,H,N,d]
    const int64_t logsumexp = rows * length * (element_size == 8 ? 8 : 4);
    const int64_t masked = options_.padding == "ignored" ? 0 : 3;  // q, k and v with padding zeroed
    // The attention's output stands while the convolution lays out its input and writes its result,
    // or is made.
    return (masked + 1 + (conv_ != nullptr ? 2 : 0)) * vector + (conv_ != nullptr ? 0 : logsumexp);
  }

  int64_t flops(int64_t batch, int64_t length) const override {
    const int64_t m = options_.num_landmarks, d = context_.head_dim;
    const int64_t conv = 2 * length * d * options_.conv_kernel_size;
    if (length <= m) return batch * context_.heads * (4 * length * length * d + conv);
    if (options_.pinv == "exact") return -1;   // the work of an SVD depends on its convergence
    const int64_t outer = 8 * length * m * d;  // Q̃Kᵀ, BV, QK̃ᵀ, FX
    const int64_t inner =
        4 * m * m * d + options_.pinv_iterations * 8 * m * m * m;  // Q̃K̃ᵀ, ZX and the iteration
    return batch * context_.heads * (outer + inner + conv);
  }

 private:
  torch::Tensor approximate(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                            const torch::Tensor& mask) const {
    const Landmarks landmarks = make_landmarks(q, k, mask);
    // Rows of B at landmarks that are not real are harmless: their columns of Z are zero.
    const torch::Tensor bv = softmax_attention(landmarks.q, k, v, mask);  // [B,H,m,d]
    const torch::Tensor x = weigh(landmarks, bv).to(q.scalar_type());     // Z (B V) [B,H,m,d]
    return softmax_attention(q, landmarks.k, x, landmarks.real);
  }

  // The landmarks of q and k [B,H,N,d].
  Landmarks make_landmarks(const torch::Tensor& q, const torch::Tensor& k,
                           const torch::Tensor& mask) const {
    const int64_t m = options_.num_landmarks;
    const bool masked = options_.padding == "masked";
    if (options_.landmarks == "strided" || options_.landmarks == "random") {
      return pick_landmarks(q, k, masked ? mask : torch::ones_like(mask));
    }
    const auto means = options_.landmarks == "segment_means" ? segment_means : adaptive_means;
    Landmarks landmarks{means(q, m), means(k, m), {}};
    if (masked) {
      // Padded rows are zero, so the mean over real tokens is the mean over all, by the share that
      // is real.
      const auto type = q.scalar_type() == torch::kDouble ? torch::kDouble : torch::kFloat;
      const torch::Tensor share = means(mask.to(type).unsqueeze(1).unsqueeze(-1), m);  // [B,1,m,1]
      landmarks.real = share.squeeze(1).squeeze(-1).gt(0);
      const torch::Tensor divisor = share.masked_fill(share.eq(0), 1);
      landmarks.q = (landmarks.q / divisor).to(q.scalar_type());
      landmarks.k = (landmarks.k / divisor).to(k.scalar_type());
    }
    return landmarks;
  }

  // Landmarks that are tokens: evenly spaced or drawn without repetition, among each sample's own
  // real positions (mask [B,N]), so that a sample with L real tokens has min(m, L) of them whatever
  // the padding.
  Landmarks pick_landmarks(const torch::Tensor& q, const torch::Tensor& k,
                           const torch::Tensor& mask) const {
    const int64_t m = options_.num_landmarks, length = q.size(2);
    const torch::Tensor count = mask.sum(1, /*keepdim=*/true);  // L [B,1]
    torch::Tensor order;                                        // [B,N]: real positions first
    torch::Tensor rank;                                         // [B,m] into order
    torch::Tensor real;                                         // [B,m]
    const torch::Tensor steps = torch::arange(m, count.options());
    if (options_.landmarks == "strided") {
      order = torch::argsort(mask.to(torch::kInt), /*stable=*/true, /*dim=*/1, /*descending=*/true);
      rank = (steps * count).div(m, "floor");  // [B,m]
      // With L < m some ranks repeat; one of each stays.
      real = torch::cat({count.gt(0), rank.narrow(1, 1, m - 1).ne(rank.narrow(1, 0, m - 1))}, 1);
    } else {
      auto generator = at::make_generator<at::CPUGeneratorImpl>(context_.seed);
      const torch::Tensor draw = torch::rand({length}, generator, torch::kDouble).to(mask.device());
      order = torch::argsort(draw.masked_fill(mask.logical_not(), 2), /*stable=*/true, /*dim=*/1,
                             /*descending=*/false);
      rank = steps.expand({mask.size(0), m});
      real = rank.lt(count);
    }
    const torch::Tensor index = order.gather(1, rank);  // [B,m]
    const auto pick = [&](const torch::Tensor& x) {
      return x.gather(2, index.unsqueeze(1).unsqueeze(-1).expand({-1, x.size(1), -1, x.size(3)}));
    };
    return {pick(q), pick(k), real};
  }

  // Z (B V): bv [B,H,m,d] -> [B,H,m,d]. At least in float32 whatever the type of the rest: the
  // iteration multiplies ill-conditioned matrices, is small (m x m), and loses the result in
  // bfloat16.
  torch::Tensor weigh(const Landmarks& landmarks, const torch::Tensor& bv) const {
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    const auto type = landmarks.q.scalar_type() == torch::kDouble ? torch::kDouble : torch::kFloat;
    const double scale = 1 / std::sqrt(static_cast<double>(bv.size(-1)));
    torch::Tensor a =
        torch::matmul(landmarks.q.to(type) * scale, landmarks.k.to(type).transpose(-2, -1));
    if (landmarks.real.defined()) {
      // A landmark that is not real gets a zero row and a zero column. [[A,0],[0,0]]⁺ =
      // [[A⁺,0],[0,0]], in the iteration too, so the real ones see what they would see alone. The
      // lowest finite number and not -inf: a row without real keys stays finite, and its gradient
      // too, until it is zeroed.
      const torch::Tensor absent = landmarks.real.logical_not().unsqueeze(1);  // [B,1,m]
      const double lowest = type == torch::kDouble ? std::numeric_limits<double>::lowest()
                                                   : std::numeric_limits<float>::lowest();
      a = torch::softmax(a.masked_fill(absent.unsqueeze(2), lowest), -1);
      a = a.masked_fill(absent.unsqueeze(2).logical_or(absent.unsqueeze(3)), 0);
    } else {
      a = torch::softmax(a, -1);
    }
    const torch::Tensor z = options_.pinv == "exact" ? at::linalg_pinv(a) : iterate(a);
    return torch::matmul(z, bv.to(type));
  }

  // Z ← ¼ Z (13 I − AZ (15 I − AZ (7 I − AZ))) from Z₀ = Aᵀ / (‖A‖₁ ‖A‖∞); a [B,H,m,m] is a
  // softmax, so ‖A‖∞ = 1.
  torch::Tensor iterate(const torch::Tensor& a) const {
    torch::Tensor norm = a.sum(-2).amax(-1);  // ‖A‖₁ [B,H]
    norm = options_.init == "global" ? norm.max() : norm.unsqueeze(-1).unsqueeze(-1);
    // It is at least 1 but for a sample with no landmark at all, whose A is zero.
    torch::Tensor z = a.transpose(-2, -1) / norm.clamp_min(0.5);
    const torch::Tensor seven = identity(7, a), fifteen = identity(15, a),
                        thirteen = identity(13, a);
    for (int64_t i = 0; i < options_.pinv_iterations; ++i) {
      const torch::Tensor az = torch::matmul(a, z);
      const torch::Tensor inner = fifteen - torch::matmul(az, seven - az);
      z = torch::matmul(0.25 * z, thirteen - torch::matmul(az, inner));
    }
    return z;
  }

  const NystromOptions options_;
  std::shared_ptr<ConvWeight> conv_;
};

[[maybe_unused]] const bool registered = register_attention<NystromAttention, NystromOptions>({
    .name = "nystrom",
    .title = "Nyström",
    .paper = "Xiong et al., AAAI 2021",
    .complexity = "O(N m)",
    .softmax = Softmax::approximate,
    .budget = "num_landmarks",
    .linear = true,
    .state = "conv.weight [H,1,K,1]",
    .peer = "transformers, nystrom-attention",
});

}  // namespace
}  // namespace lra
