// Skyformer: Gaussian-kernel attention κ(Q,K) V, κ(x,y) = exp(-‖x - y‖²/2) on x d^-¼, by Nyström
// approximation with landmarks among queries and keys:
//   X = [Q;K] [2N,d], X_S [m,d] some of its rows, C = κ(X, X_S), S = κ(X_S, X_S) + 0.1 I,
//   D = diag(S 1), Z ≈ (D^-½ S D^-½)⁻¹ by 6 iterations of iterative_inverse.h from Aᵀ/(‖A‖₁ ‖A‖∞),
//   out = C_Q D^-½ Z D^-½ C_Kᵀ V; rows are not normalised.
//
// Chen et al., "Skyformer: Remodel Self-Attention with Gaussian Kernel and Nyström Method", NeurIPS
// 2021, sections 4.2-4.4; the ridge 0.1 and the count of iterations are those of the released code.
// Cost: O(N m d + m³) time; memory O(N m + m²).
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <mutex>

#include "attention_variants/forward_count.h"
#include "attention_variants/ops/autocast.h"
#include "attention_variants/ops/padding.h"
#include "attention_variants/ops/reference/iterative_inverse.h"
#include "attention_variants/projected_attention.h"
#include "attention_variants/registry.h"

namespace lra {
namespace {

constexpr double kRidge = 0.1;
constexpr int64_t kIterations = 6;

/// Among which positions landmarks are drawn.
enum class LandmarkPositions {
  real,    // those of the sample's tokens
  prefix,  // as many as it has tokens, from the first on: with padding between tokens, others
};
constexpr auto names(LandmarkPositions) { return std::array{"real", "prefix"}; }

/// What the inverse's iteration starts from.
enum class SkyformerInit {
  matrix,  // Aᵀ/(‖A‖₁ ‖A‖∞), of each matrix
  global,  // Aᵀ/‖A‖₁ with the maximum over the batch, as the released code
};
constexpr auto names(SkyformerInit) { return std::array{"matrix", "global"}; }

struct SkyformerOptions {
  int64_t num_features = 128;  // m, landmarks: half of them queries, half keys
  Redraw redraw = Redraw::seed;
  LandmarkPositions positions = LandmarkPositions::real;
  SkyformerInit init = SkyformerInit::matrix;

  template <class Fields>
  void fields(Fields& f) {
    f("num_features", num_features, at_least(1));
    f("redraw", redraw);
    f("positions", positions);
    f("init", init);
  }
};

// κ of all rows: the exponent xᵀy - ‖x‖²/2 - ‖y‖²/2 is one product of x with two columns more, [x,
// ‖x‖²/2, 1] · [y, -1, -‖y‖²/2]. `rows` [B,H,M,d+2] are the former, `landmarks` [B,H,m,d+2] some of
// them -> [B,H,M,m].
torch::Tensor kernel(const torch::Tensor& rows, const torch::Tensor& landmarks) {
  const int64_t d = rows.size(-1) - 2;
  const torch::Tensor ones = landmarks.narrow(-1, d + 1, 1), half_norm = landmarks.narrow(-1, d, 1);
  const torch::Tensor other = torch::cat({landmarks.narrow(-1, 0, d), -ones, -half_norm}, -1);
  torch::Tensor exponent = torch::matmul(rows, other.transpose(-2, -1));
  // It is -‖x - y‖²/2: what rounding puts above 0 for rows of large norm must not overflow. Unseen
  // by autograd, whose gradient there is the right one, and which would keep another [M,m].
  exponent.detach().clamp_max_(0);
  return exponent.exp_();
}

class SkyformerAttention : public ProjectedAttention {
 public:
  SkyformerAttention(const AttentionContext& context, const SkyformerOptions& options)
      : ProjectedAttention(context), options_(options) {
    if (options.redraw == Redraw::forward)
      redraw_ = register_module("redraw", std::make_shared<ForwardCount>());
  }

  torch::Tensor attend(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                       const torch::Tensor& mask) override {
    check_attend_inputs(q, k, v, mask);
    const int64_t length = q.size(2), width = q.size(3);
    const uint64_t seed =
        redraw_ == nullptr ? context_.seed : seed_of_draw(context_.seed, redraw_->next());
    const torch::Tensor table =
        landmarks_.defined() ? given_landmarks(q) : draw_landmarks(mask, seed);
    // The exponents and the inverse lose the result in bfloat16. Autocast would bring their
    // products back to it.
    const ops::NoAutocast guard;
    const auto type = ops::wide_type(q.scalar_type());
    const torch::Tensor absent =
        torch::cat({mask, mask}, 1).logical_not().unsqueeze(1);  // [B,1,2N]
    const double scale = std::pow(static_cast<double>(width), -0.25);
    const torch::Tensor x = torch::cat({q, k}, 2)
                                .to(type)
                                .masked_fill_(absent.unsqueeze(-1), 0)
                                .mul_(scale);  // [B,H,2N,d]
    const torch::Tensor half_norm = 0.5 * x.square().sum(-1, /*keepdim=*/true);
    const torch::Tensor rows = torch::cat({x, half_norm, torch::ones_like(half_norm)}, -1);
    const torch::Tensor landmarks = rows.gather(
        2, table.unsqueeze(1).unsqueeze(-1).expand({-1, q.size(1), -1, width + 2}));  // [B,H,m,d+2]
    // One C at a time where nothing is kept for gradients.
    const torch::Tensor ckv =
        torch::matmul(kernel(rows.narrow(2, length, length), landmarks).transpose(-2, -1),
                      ops::zero_padding(v, mask).to(type));  // C_Kᵀ V [B,H,m,d]
    const torch::Tensor out = torch::matmul(kernel(rows.narrow(2, 0, length), landmarks),
                                            weigh(kernel(landmarks, landmarks), ckv));
    return ops::zero_padded_rows(out.to(q.scalar_type()), mask);
  }

  std::vector<std::string> tables() const override { return {"landmarks"}; }

  /// landmarks [B,m] int64: rows of [Q;K], 0 to 2N - 1.
  void set_table(const std::string& name, const torch::Tensor& table) override {
    if (name != "landmarks") throw unknown_name("table", name, tables(), "skyformer");
    landmarks_ = table;
  }

  bool capturable() const override { return redraw_ == nullptr; }

  json options() const override { return write_fields(options_); }

  int64_t analytic_bytes(int64_t batch, int64_t length, int64_t element_size,
                         bool training) const override {
    if (training) return -1;  // depends on when autograd frees what
    const int64_t rows = batch * context_.heads, d = context_.head_dim, m = options_.num_features;
    // [Q;K], the same with two columns more, half the norms, the landmarks and C_Kᵀ V.
    const int64_t held = rows * (2 * length * (2 * d + 3) + m * (2 * d + 2));
    // Either the inverse, with its multiples of I, or what stands beside C_Q and the result.
    const int64_t inverse = (11 * rows + 4) * m * m,
                  outer = rows * (m * m + length * (m + d) + m * d);
    return (held + std::max(inverse, outer)) * std::max<int64_t>(element_size, sizeof(float));
  }

  int64_t flops(int64_t batch, int64_t length) const override {
    const int64_t m = options_.num_features, d = context_.head_dim;
    const int64_t kernels = 2 * (2 * length + m) * m * (d + 2) + 4 * length * d;
    const int64_t outer = 4 * length * m * d;  // C_Kᵀ V and C_Q (..)
    const int64_t inner = kIterations * 8 * m * m * m + 2 * m * m * d;
    return batch * context_.heads * (kernels + outer + inner);
  }

 private:
  // Uniform draws with repetition among each sample's own real positions: mask [B,N] -> [B,m] rows
  // of [Q;K]. The draws depend on the seed alone and the rows on them and on the sample's real
  // tokens, not on its padding or its batch.
  torch::Tensor draw_landmarks(const torch::Tensor& mask, uint64_t seed) {
    const int64_t m = options_.num_features, queries = m / 2, length = mask.size(1);
    const torch::Tensor draw = drawn(seed, mask.device());
    const torch::Tensor seen = mask.cumsum(1);                  // [B,N]
    const torch::Tensor count = seen.narrow(1, length - 1, 1);  // L [B,1]
    const torch::Tensor rank = (draw * count).floor().to(torch::kLong).minimum(count - 1);  // [B,m]
    // The position whose count of real ones up to it first exceeds the rank; a sample without any
    // takes the first, whose row is zero.
    const torch::Tensor position =
        options_.positions == LandmarkPositions::prefix
            ? rank.clamp_min(0)
            : torch::searchsorted(seen, rank, /*out_int32=*/false, /*right=*/true);
    const torch::Tensor offset =
        torch::arange(m, position.options()).ge(queries).to(torch::kLong) * length;
    return position + offset;
  }

  // Numbers in [0,1), float64 [m], kept where they are read: several threads may call attend().
  torch::Tensor drawn(uint64_t seed, torch::Device device) {
    const std::scoped_lock lock(drawing_);
    if (!draw_.defined() || draw_seed_ != seed || draw_.device() != device) {
      auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
      draw_ = torch::rand({options_.num_features}, generator, torch::kDouble).to(device);
      draw_seed_ = seed;
    }
    return draw_;
  }

  torch::Tensor given_landmarks(const torch::Tensor& q) const {
    const int64_t rows = 2 * q.size(2);
    const std::vector<int64_t> shape = {q.size(0), options_.num_features};
    if (landmarks_.sizes() != shape || landmarks_.scalar_type() != torch::kLong) {
      throw Error(fmt::format("table landmarks should be [{}] Long, not [{}] {}",
                              fmt::join(shape, ","), fmt::join(landmarks_.sizes(), ","),
                              c10::toString(landmarks_.scalar_type())));
    }
    if (landmarks_.min().item<int64_t>() < 0 || landmarks_.max().item<int64_t>() >= rows) {
      throw Error(fmt::format("table landmarks should hold rows of [q;k], 0 to {}", rows - 1));
    }
    return landmarks_.to(q.device());
  }

  // D^-½ Z D^-½ x: κ(X_S, X_S) [B,H,m,m] and x [B,H,m,d] -> [B,H,m,d].
  torch::Tensor weigh(const torch::Tensor& similarity, const torch::Tensor& x) const {
    const torch::Tensor s =
        similarity + kRidge * torch::eye(similarity.size(-1), similarity.options());
    const torch::Tensor root = s.sum(-1, /*keepdim=*/true).rsqrt();  // D^-½ [B,H,m,1]
    const torch::Tensor a = root * s * root.transpose(-2, -1);
    const torch::Tensor columns = a.sum(-2).amax(-1);  // ‖A‖₁ [B,H]
    const torch::Tensor norms = options_.init == SkyformerInit::global
                                    ? columns.max().expand_as(columns)
                                    : columns * a.sum(-1).amax(-1);
    const torch::Tensor start = a.transpose(-2, -1) / norms.unsqueeze(-1).unsqueeze(-1);
    const torch::Tensor z = ops::reference::iterative_inverse(a, start, kIterations);
    return root * torch::matmul(z, root * x);
  }

  const SkyformerOptions options_;
  torch::Tensor landmarks_;  // given; undefined: drawn
  std::mutex drawing_;
  torch::Tensor draw_;                    // the last one
  uint64_t draw_seed_ = 0;                // of that
  std::shared_ptr<ForwardCount> redraw_;  // empty where they stay
};

[[maybe_unused]] const bool skyformer_registered =
    register_attention<SkyformerAttention, SkyformerOptions>({
        .name = "skyformer",
        .title = "Skyformer",
        .paper = "Chen et al., NeurIPS 2021",
        .complexity = "O(N m)",
        .softmax = Softmax::different,
        .linear = true,
        .state = "landmarks [B,m], drawn",
        .can_rotate = true,
        .peer = "the formula, in float64",
        .couples_batch = {{"init", "global"}},
        .draws_in_passes = {{"redraw", "forward"}},
    });

}  // namespace
}  // namespace lra
