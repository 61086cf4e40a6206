// Performer (FAVOR+): out = φ(Q) (φ(K)ᵀ V) / (φ(Q)·Σ φ(K)) with random features φ whose products
// stand for the softmax kernel: φ(x) = m^-½ (exp(wᵀx̂ − ‖x̂‖²/2 − c) + ε), x̂ = d^-¼ x, ε = 1e-4, one
// feature a row of w [m,d]. c keeps the exponential finite: it is the largest wᵀx̂, of a query over
// its features, of the keys over features and the real positions of their sample and head. Without
// ε it would cancel; with ε it is part of the function and is differentiated. Or φ(x) = relu(wᵀx̂) +
// 1e-3.
//
// Choromanski et al., "Rethinking Attention with Performers", ICLR 2021. Cost: O(N m d) time, O(N
// m) memory: one [B,H,N,m] of features each for queries and keys.
#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include <fmt/format.h>

#include "attention_variants/ops/linear_attention.h"
#include "attention_variants/ops/padding.h"
#include "attention_variants/ops/reference/linear_attention.h"
#include "attention_variants/projected_attention.h"
#include "attention_variants/registry.h"

namespace lra {
namespace {

// Of the denominator: out of reach but for a sample without tokens, whose sums are zero.
constexpr double kPerformerLeast = 1e-30;

struct PerformerOptions {
  int64_t num_features = 256;      // m
  std::string kernel = "softmax";  // or relu
  bool orthogonal = true;          // blocks of d rows of w are orthogonal; false: independent rows
  int64_t redraw_interval = 0;     // training forwards between two draws of w; 0 = never
  bool prescale = false;  // q and k times d^-¼ once more, and zeroed padded keys kept in the sums,
                          // as the released code of the Nyströmformer's LRA experiments calls it

  template <class Fields>
  void fields(Fields& f) {
    f("num_features", num_features, at_least(1));
    f("kernel", kernel, one_of({"softmax", "relu"}));
    f("orthogonal", orthogonal);
    f("redraw_interval", redraw_interval, at_least(0));
    f("prescale", prescale);
  }
};

// w [m,d] of that seed: Gaussian rows, or with orthogonal directions in blocks of d and the norms
// of Gaussian rows.
torch::Tensor draw_projection(int64_t m, int64_t d, bool orthogonal, uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  const torch::Tensor rows = torch::randn({m, d}, generator, torch::kDouble);
  if (!orthogonal) return rows;
  const int64_t blocks = (m + d - 1) / d;
  const auto [q, r] = at::linalg_qr(torch::randn({blocks, d, d}, generator, torch::kDouble));
  // QR leaves the signs of columns to the library, whose choice is not uniform over the sphere;
  // with a positive diagonal of R it is.
  const torch::Tensor sign = r.diagonal(0, -2, -1).sign().unsqueeze(-2);  // [blocks,1,d]
  const torch::Tensor directions = (q * sign).mT().reshape({blocks * d, d}).narrow(0, 0, m);
  return directions * rows.norm(2, 1, /*keepdim=*/true);
}

// Training forwards so far, and no other part of the state. Module::to(dtype) converts integer
// buffers as well, and bfloat16 cannot count beyond 256: this one keeps its type.
struct ForwardCount : torch::nn::Module {
  ForwardCount() { forwards = register_buffer("forwards", torch::zeros({}, torch::kInt64)); }
  using Module::to;
  void to(torch::Device device, torch::Dtype, bool non_blocking) override {
    Module::to(device, non_blocking);
  }
  void to(torch::Dtype, bool) override {}
  torch::Tensor forwards;  // []
};

class PerformerAttention : public ProjectedAttention {
 public:
  PerformerAttention(const AttentionContext& context, const PerformerOptions& options)
      : ProjectedAttention(context), options_(options) {
    projection_ = register_buffer("projection", draw(0));
    if (options_.redraw_interval > 0)
      redraw_ = register_module("redraw", std::make_shared<ForwardCount>());
  }

  torch::Tensor attend(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                       const torch::Tensor& mask) override {
    check_attend_inputs(q, k, v, mask);
    if (q.size(3) != context_.head_dim) {
      throw Error(fmt::format("performer was made for heads of width {}, not {}", context_.head_dim,
                              q.size(3)));
    }
    if (redraw_ != nullptr && is_training()) count_forward();
    const bool relu = options_.kernel == "relu";
    const double offset = relu ? 1e-3 : 1e-4;
    if (ops::has_cpu_kernels(context_.kernels, q)) {
      return ops::linear_attention(
          q, k, v, mask, projection_.to(torch::kFloat) * scale(),
          {.map = relu ? ops::cpu::FeatureMap::relu : ops::cpu::FeatureMap::softmax,
           .norm = scale() * scale() / 2,
           .offset = offset,
           .denominator_min = kPerformerLeast,
           .count_padding = options_.prescale});
    }
    const torch::Tensor seen = options_.prescale ? torch::ones_like(mask) : mask;
    const torch::Tensor values = ops::reference::values_with_ones(
        options_.prescale ? ops::zero_padding(v, mask) : v, seen);  // [B,H,N,d+1]
    // The features of the keys are gone before those of the queries are made. m^-½ is left out: it
    // cancels.
    const torch::Tensor sums = ops::reference::key_value_sums(
        features(ops::zero_padding(k, mask), seen).to(v.scalar_type()), values,
        offset);  // [B,H,m,d+1]
    const torch::Tensor out = ops::reference::normalised_readout(
        features(ops::zero_padding(q, mask), torch::Tensor()).to(v.scalar_type()), sums, offset,
        kPerformerLeast);
    return ops::zero_padded_rows(out.to(q.scalar_type()), mask);
  }

  bool length_invariant() const override { return !options_.prescale; }

  json options() const override { return write_fields(options_); }

  int64_t analytic_bytes(int64_t batch, int64_t length, int64_t element_size,
                         bool training) const override {
    if (training) return -1;  // depends on when autograd frees what
    const int64_t rows = batch * context_.heads, d = context_.head_dim, m = options_.num_features;
    if (ops::has_cpu_kernels(context_.kernels, element_size)) {
      return ops::linear_attention_bytes(batch, context_.heads, length, d, m) +
             m * d * element_size;  // and the scaled projection
    }
    // While the queries are read: the values with their column of ones, the keys' sums, and of the
    // queries themselves, their features, and the numerator with its denominator before and after
    // its offset. Features are of float32 at least.
    const int64_t features = rows * length * m * std::max<int64_t>(element_size, 4);
    return features + rows * (length * (3 * (d + 1) + d) + m * (d + 1)) * element_size;
  }

  int64_t flops(int64_t batch, int64_t length) const override {
    const int64_t m = options_.num_features, d = context_.head_dim;
    const int64_t logits = 4 * length * m * d;          // Q wᵀ, K wᵀ
    const int64_t products = 4 * length * m * (d + 1);  // φ(K)ᵀ [V, 1] and φ(Q) times it
    return batch * context_.heads * (logits + products);
  }

 private:
  // x̂ is x times it.
  double scale() const {
    return std::pow(static_cast<double>(context_.head_dim), options_.prescale ? -0.5 : -0.25);
  }

  torch::Tensor draw(int64_t redraws) const {
    // The generator reads the low half of a seed: an odd factor tells all redraws apart there.
    const uint64_t seed = context_.seed + static_cast<uint64_t>(redraws) * 0x9e3779b97f4a7c15;
    return draw_projection(options_.num_features, context_.head_dim, options_.orthogonal, seed)
        .to(torch::kFloat);
  }

  // The count is a part of the state, and a draw depends on nothing else: a resumed run goes on as
  // if it had not stopped.
  void count_forward() {
    const torch::NoGradGuard no_grad;
    const int64_t done = redraw_->forwards.item<int64_t>();
    if (done > 0 && done % options_.redraw_interval == 0)
      projection_.copy_(draw(done / options_.redraw_interval));
    redraw_->forwards.add_(1);
  }

  // φ without its offset, x [B,H,N,d] -> [B,H,N,m], at least in float32 whatever the type of x: an
  // exponent of 80 in bfloat16 is off by a quarter. Of queries where `seen` is undefined, else of
  // keys with c the maximum over the positions seen [B,N].
  torch::Tensor features(const torch::Tensor& x_given, const torch::Tensor& seen) const {
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    const auto type = x_given.scalar_type() == torch::kDouble ? torch::kDouble : torch::kFloat;
    const torch::Tensor x = x_given.to(type);
    // A fresh tensor: autograd keeps it, and the next redraw leaves it alone.
    const torch::Tensor w = projection_.to(type) * scale();
    torch::Tensor logits = torch::matmul(x, w.t());  // wᵀx̂ [B,H,N,m]
    if (options_.kernel == "relu") return logits.relu_();
    torch::Tensor shift =
        x.square().sum(-1, /*keepdim=*/true) * (scale() * scale() / 2);  // ‖x̂‖²/2 [B,H,N,1]
    if (!seen.defined()) {
      shift = shift + largest(x, w, logits);
    } else {
      // At positions not seen x is zero; the exponential is 1 there instead of exp(-c).
      shift = (shift + largest(x, w, logits, seen))
                  .masked_fill(seen.logical_not().unsqueeze(1).unsqueeze(-1), 0);
    }
    // In place: autograd needs the exponential alone.
    return logits.sub_(shift).exp_();
  }

  // The largest wᵀx̂ of each position [B,H,N,1]. For autograd it is computed once more from the row
  // of w that attains it, so that its gradient needs neither logits [B,H,N,m] nor a tensor of that
  // size.
  static torch::Tensor largest(const torch::Tensor& x, const torch::Tensor& w,
                               const torch::Tensor& logits) {
    if (!logits.requires_grad()) return logits.amax(-1, /*keepdim=*/true);
    // max() and not argmax(), which takes three times as long on CPUs.
    const torch::Tensor feature = std::get<1>(logits.detach().max(-1));  // [B,H,N]
    return (x * w.index_select(0, feature.flatten()).view(x.sizes())).sum(-1, /*keepdim=*/true);
  }

  // The largest of each sample and head [B,H,1,1], over the positions seen [B,N].
  static torch::Tensor largest(const torch::Tensor& x, const torch::Tensor& w,
                               const torch::Tensor& logits, const torch::Tensor& seen) {
    const torch::Tensor position =
        logits.detach()
            .amax(-1)
            .masked_fill(seen.logical_not().unsqueeze(1), -std::numeric_limits<double>::infinity())
            .argmax(-1, /*keepdim=*/true)
            .unsqueeze(-1);  // [B,H,1,1]
    const auto row = [&](const torch::Tensor& t) {
      return t.gather(2, position.expand({-1, -1, 1, t.size(3)}));
    };
    return largest(row(x), w, row(logits));
  }

  const PerformerOptions options_;
  torch::Tensor projection_;              // w [m,d]
  std::shared_ptr<ForwardCount> redraw_;  // empty where nothing is redrawn
};

[[maybe_unused]] const bool performer_registered =
    register_attention<PerformerAttention, PerformerOptions>({
        .name = "performer",
        .title = "Performer",
        .paper = "Choromanski et al., ICLR 2021",
        .complexity = "O(N m)",
        .softmax = Softmax::approximate,
        .budget = "num_features",
        .linear = true,
        .state = "projection [m,d]; redraw.forwards [] where redraw_interval is above 0",
        .peer = "performer-pytorch",
    });

}  // namespace
}  // namespace lra
