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

#include <fmt/format.h>

#include "attention_variants/forward_count.h"
#include "attention_variants/ops/autocast.h"
#include "attention_variants/ops/linear_attention.h"
#include "attention_variants/projected_attention.h"
#include "attention_variants/registry.h"

namespace lra {
namespace {

// Of the denominator; reached by samples without tokens, whose sums are zero, and, where epsilon is
// 0, by queries and keys so long that every product of their features is smaller.
constexpr double kPerformerLeast = 1e-30;

enum class PerformerKernel { softmax, relu };
constexpr auto names(PerformerKernel) { return std::array{"softmax", "relu"}; }

/// When w is drawn anew.
enum class PerformerRedraw { interval, forward };  // forward: in every pass, evaluation too
constexpr auto names(PerformerRedraw) { return std::array{"interval", "forward"}; }

struct PerformerOptions {
  int64_t num_features = 256;  // m
  PerformerKernel kernel = PerformerKernel::softmax;
  bool orthogonal = true;       // blocks of d rows of w are orthogonal; false: independent rows
  int64_t redraw_interval = 0;  // training forwards between two draws of w; 0 = never
  PerformerRedraw redraw = PerformerRedraw::interval;
  double epsilon = 1e-4;  // ε of the softmax kernel
  double guard = 0;       // denominators of at most it get twice as much added, as in LRA's release
  ops::KeyMax key_max = ops::KeyMax::sample;  // where the keys' c is the largest
  // Of c. detached: as performer-pytorch has it since 1.1.4, whose gradient is not that of what it
  // computes, for ε is not differentiated with it.
  ops::MaxGradient max_gradient = ops::MaxGradient::attached;
  bool prescale = false;  // q and k times d^-¼ once more, and zeroed padded keys kept in the sums,
                          // as the released code of the Nyströmformer's LRA experiments calls it

  template <class Fields>
  void fields(Fields& f) {
    f("num_features", num_features, at_least(1));
    f("kernel", kernel);
    f("orthogonal", orthogonal);
    f("redraw_interval", redraw_interval, at_least(0));
    f("redraw", redraw);
    f("epsilon", epsilon, at_least(0));
    f("guard", guard, at_least(0));
    f("key_max", key_max);
    f("max_gradient", max_gradient);
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

class PerformerAttention : public ProjectedAttention {
 public:
  PerformerAttention(const AttentionContext& context, const PerformerOptions& options)
      : ProjectedAttention(context), options_(options) {
    projection_ = register_buffer("projection", draw(0));
    if (options_.redraw_interval > 0 || options_.redraw == PerformerRedraw::forward)
      redraw_ = register_module("redraw", std::make_shared<ForwardCount>());
  }

  torch::Tensor attend(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                       const torch::Tensor& mask) override {
    check_attend_inputs(q, k, v, mask);
    if (q.size(3) != context_.head_dim) {
      throw Error(fmt::format("performer was made for heads of width {}, not {}", context_.head_dim,
                              q.size(3)));
    }
    redraw();
    // A fresh tensor: autograd keeps it, and the next redraw leaves it alone. m^-½ is left out: it
    // cancels.
    const auto type = ops::wide_type(q.scalar_type());
    return ops::linear_attention(context_.kernels,
                                 {q, k, v, mask, projection_.to(type) * scale(), linear_options()});
  }

  bool length_invariant() const override {
    return !options_.prescale && options_.key_max == ops::KeyMax::sample;
  }

  bool capturable() const override { return redraw_ == nullptr; }

  json options() const override { return write_fields(options_); }

  int64_t analytic_bytes(int64_t batch, int64_t length, int64_t element_size,
                         bool training) const override {
    if (training) return -1;  // depends on when autograd frees what
    return ops::linear_attention_bytes(context_.kernels, shape(batch, length, element_size)) +
           options_.num_features * context_.head_dim *
               std::max<int64_t>(element_size, 4);  // and the scaled projection
  }

  int64_t flops(int64_t batch, int64_t length) const override {
    return ops::linear_attention_flops(shape(batch, length));
  }

 private:
  ops::LinearAttentionShape shape(int64_t batch, int64_t length, int64_t element_size = 4) const {
    return {.batch = batch,
            .heads = context_.heads,
            .length = length,
            .head_dim = context_.head_dim,
            .width = options_.num_features,
            .element_size = element_size,
            .options = linear_options()};
  }

  ops::LinearAttentionOptions linear_options() const {
    const bool relu = options_.kernel == PerformerKernel::relu;
    return {.map = relu ? ops::FeatureMap::relu : ops::FeatureMap::softmax,
            .norm = scale() * scale() / 2,
            .offset = relu ? 1e-3 : options_.epsilon,
            .denominator_min = kPerformerLeast,
            // m^-½ is left out of both features; relu's have none.
            .guard = options_.guard * (relu ? 1 : static_cast<double>(options_.num_features)),
            .count_padding = options_.prescale,
            .key_max = options_.key_max,
            .max_gradient = options_.max_gradient};
  }

  // x̂ is x times it.
  double scale() const {
    return std::pow(static_cast<double>(context_.head_dim), options_.prescale ? -0.5 : -0.25);
  }

  torch::Tensor draw(int64_t redraws) const {
    return draw_projection(options_.num_features, context_.head_dim, options_.orthogonal,
                           seed_of_draw(context_.seed, redraws))
        .to(torch::kFloat);
  }

  void redraw() {
    if (redraw_ == nullptr) return;
    const torch::NoGradGuard no_grad;
    if (options_.redraw == PerformerRedraw::forward) {
      const int64_t done = redraw_->next();
      if (done > 0) projection_.copy_(draw(done));
    } else if (is_training()) {
      const int64_t done = redraw_->next();
      if (done > 0 && done % options_.redraw_interval == 0)
        projection_.copy_(draw(done / options_.redraw_interval));
    }
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
        .state = "projection [m,d]; redraw.forwards [] where it is redrawn",
        .can_rotate = true,
        .peer = "performer-pytorch",
        .couples_batch = {{"key_max", "batch"}},
        .draws_in_passes = {{"redraw", "forward"}},
        .read_where = {{"redraw_interval", "redraw", "interval"},
                       {"epsilon", "kernel", "softmax"},
                       {"key_max", "kernel", "softmax"},
                       {"max_gradient", "kernel", "softmax"}},
    });

}  // namespace
}  // namespace lra
