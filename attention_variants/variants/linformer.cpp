// Linformer: out = softmax(Q K'ᵀ / √d) V' with K' = E K and V' = F V, where E and F [k,N] are
// learned and padded rows of K and V are zero. N below max_length uses the first N columns.
//
// Wang et al., "Linformer: Self-Attention with Linear Complexity", 2020. Cost: O(N k d) time.
// Memory O(N d): the softmax over k keys goes through the fused kernel. Parameters O(k N).
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "attention_variants/ops/project_length.h"
#include "attention_variants/ops/softmax_attention.h"
#include "attention_variants/projected_attention.h"
#include "attention_variants/registry.h"

namespace lra {
namespace {

enum class ProjectionSharing {
  headwise,    // E and F for all heads
  none,        // E and F for each head
  key_value,   // E = F for all heads
  heads_only,  // E = F for each head
};
constexpr auto names(ProjectionSharing) {
  return std::array{"headwise", "none", "key_value", "heads_only"};
}

enum class ProjectionInit {
  normal,   // of standard deviation 0.02
  uniform,  // within ±1/√k
  xavier,   // within ±√(6 / (k + Nmax))
};
constexpr auto names(ProjectionInit) { return std::array{"normal", "uniform", "xavier"}; }

/// Whose E and F are.
enum class ProjectionOwner {
  layer,
  model,  // of all layers of a model
};
constexpr auto names(ProjectionOwner) { return std::array{"layer", "model"}; }

struct LinformerOptions {
  int64_t projected_length = 256;  // k
  ProjectionSharing sharing = ProjectionSharing::headwise;
  ProjectionInit init = ProjectionInit::normal;
  ProjectionOwner tables = ProjectionOwner::layer;
  bool trained = true;  // false: they stay as they are drawn
  double dropout = 0;   // of the weights, in training

  template <class Fields>
  void fields(Fields& f) {
    f("projected_length", projected_length, at_least(1));
    f("sharing", sharing);
    f("init", init);
    f("tables", tables);
    f("trained", trained);
    f("dropout", dropout, between(0, 0.999));
  }
};

// E and F; the module exists for its state names, projection.key and projection.value. They belong
// to one layer, or to the layers of one model, whose first has them in its state: a projection held
// by a class would couple all models of a process.
struct LengthProjection : torch::nn::Module {
  LengthProjection(const AttentionContext& context, const LinformerOptions& options) {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(context.seed);
    const int64_t k = options.projected_length;
    const auto draw = [&] {
      const bool per_head = options.sharing == ProjectionSharing::none ||
                            options.sharing == ProjectionSharing::heads_only;
      const std::vector<int64_t> shape =
          per_head ? std::vector<int64_t>{context.heads, k, context.max_length}
                   : std::vector<int64_t>{k, context.max_length};
      const auto type = torch::get_default_dtype_as_scalartype();
      if (options.init == ProjectionInit::normal)
        return (0.02 * torch::randn(shape, generator, torch::kDouble)).to(type);
      const double bound = options.init == ProjectionInit::uniform
                               ? 1 / std::sqrt(static_cast<double>(k))
                               : std::sqrt(6 / static_cast<double>(k + context.max_length));
      return (torch::rand(shape, generator, torch::kDouble) * (2 * bound) - bound).to(type);
    };
    const auto add = [&](const char* name) {
      const bool of_model = options.tables == ProjectionOwner::model && context.shared != nullptr;
      const std::string shared = std::string("linformer.") + name;
      if (of_model && context.shared->contains(shared)) return context.shared->at(shared);
      const torch::Tensor table =
          options.trained ? register_parameter(name, draw()) : register_buffer(name, draw());
      if (of_model) context.shared->emplace(shared, table);
      return table;
    };
    key = add("key");
    const bool one = options.sharing == ProjectionSharing::key_value ||
                     options.sharing == ProjectionSharing::heads_only;
    value = one ? key : add("value");
  }
  torch::Tensor key, value;  // [k,Nmax] or [H,k,Nmax]; the same tensor where E = F
};

class LinformerAttention : public ProjectedAttention {
 public:
  LinformerAttention(const AttentionContext& context, const LinformerOptions& options)
      : ProjectedAttention(context), options_(options) {
    projection_ =
        register_module("projection", std::make_shared<LengthProjection>(context, options));
  }

  torch::Tensor attend(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                       const torch::Tensor& mask) override {
    check_attend_inputs(q, k, v, mask);
    if (q.size(2) > context_.max_length) {
      throw Unsupported(fmt::format(
          "linformer was made for a length of at most {} (its projections have that many columns), "
          "not {}",
          context_.max_length, q.size(2)));
    }
    if (projection_->key.dim() == 3 && q.size(1) != context_.heads) {
      throw Error(
          fmt::format("linformer was made for {} heads, not {}", context_.heads, q.size(1)));
    }
    const torch::Tensor keys = ops::project_length(context_.kernels, {k, projection_->key, mask}),
                        values = ops::project_length(context_.kernels,
                                                     {v, projection_->value, mask});  // [B,H,k,d]
    return ops::softmax_attention(context_.kernels,
                                  {q,
                                   keys,
                                   values,
                                   /*keys=*/torch::Tensor(),
                                   /*queries=*/mask,
                                   {.dropout = options_.dropout, .training = is_training()}});
  }

  bool length_invariant() const override { return true; }

  bool capturable() const override { return true; }

  json options() const override { return write_fields(options_); }

  int64_t analytic_bytes(int64_t batch, int64_t length, int64_t element_size,
                         bool training) const override {
    if (training) return -1;  // depends on when autograd frees what
    const int64_t rows = batch * context_.heads, d = context_.head_dim,
                  k = options_.projected_length;
    const int64_t projected = rows * k * d * element_size;  // K', as large as V'
    // The second projection beside the first one's result, or the softmax beside both.
    return std::max(projected + ops::project_length_bytes(
                                    context_.kernels,
                                    {.batch = batch,
                                     .heads = context_.heads,
                                     .length = length,
                                     .head_dim = d,
                                     .rows = k,
                                     .tables = projection_->key.dim() == 3 ? context_.heads : 1,
                                     .element_size = element_size}),
                    2 * projected + ops::softmax_attention_bytes(
                                        context_.kernels,
                                        {rows, length, k, d, d, element_size, /*key_mask=*/false}));
  }

  int64_t flops(int64_t batch, int64_t length) const override {
    // E K, F V, Q K'ᵀ and its softmax times V'.
    return 8 * batch * context_.heads * length * options_.projected_length * context_.head_dim;
  }

 private:
  const LinformerOptions options_;
  std::shared_ptr<LengthProjection> projection_;
};

[[maybe_unused]] const bool linformer_registered =
    register_attention<LinformerAttention, LinformerOptions>({
        .name = "linformer",
        .title = "Linformer",
        .paper = "Wang et al., 2020",
        .complexity = "O(N k)",
        .softmax = Softmax::different,
        .budget = "projected_length",
        .linear = true,
        .state =
            "projection.key, projection.value [k,Nmax], or [H,k,Nmax]; no projection.value where "
            "key and value share",
        .length_bound = true,
        .why_unrotated = "its projections add up keys of many positions",
        .peer = "linformer",
    });

}  // namespace
}  // namespace lra
