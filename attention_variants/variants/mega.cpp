// Mega: one head of attention whose queries and keys are read from an exponential moving average of
// the rows, and whose residual sum is gated. Of normed rows x:
//   m = silu(Σ_l k_l x_{t-l} + Σ_l k'_l x_{t+l} + ω ⊙ x),  k_l = Σ_h p β q^l γ / √h,
//   p = σ(δ), q = 1 - σ(δ) σ(α),  [u; z; r; c] = W_m m,  v = silu(W_v x),
//   h = silu(c + W_h (A v ⊙ silu(r))),  block: x' + σ(u) ⊙ (h - x') of the x' before the norm,
// with A of queries γ₀ ⊙ silu(z) + β₀ and keys γ₁ ⊙ silu(z) + β₁, and a bias for each distance.
//
// Ma et al., "Mega: Moving Average Equipped Gated Attention", ICLR 2023.
// Cost: O(N²) time, O(N c) in chunks of c positions, which see themselves alone; memory O(N) by the
// own kernel (softmax), O(N²) or O(N c) by LibTorch's operators and of laplace and relu2.
#include <cmath>

#include "attention_variants/ops/dropout.h"
#include "attention_variants/ops/linear.h"
#include "attention_variants/ops/long_convolution.h"
#include "attention_variants/ops/reference/softmax_attention.h"
#include "attention_variants/ops/softmax_attention.h"
#include "attention_variants/registry.h"
#include "attention_variants/sequence_mixer.h"

namespace lra {
namespace {

enum class MegaWeights { softmax, laplace, relu2 };
constexpr auto names(MegaWeights) { return std::array{"softmax", "laplace", "relu2"}; }

struct MegaOptions {
  int64_t ema = 16;      // modes of the moving average, h
  int64_t z = 64;        // width of queries and keys
  int64_t hidden = 128;  // width of values
  MegaWeights attention = MegaWeights::softmax;
  int64_t chunk = 0;       // 0: all positions
  int64_t truncation = 0;  // lags of the moving average; 0: all
  bool bidirectional = true;

  template <class Fields>
  void fields(Fields& f) {
    f("ema", ema, at_least(1));
    f("z", z, at_least(1));
    f("hidden", hidden, at_least(1));
    f("attention", attention);
    f("chunk", chunk, at_least(0));
    f("truncation", truncation, at_least(0));
    f("bidirectional", bidirectional);
  }
};

class MegaAttention : public SequenceMixer {
 public:
  MegaAttention(const AttentionContext& context, const MegaOptions& options)
      : SequenceMixer(context),
        options_(options),
        two_sided_(options.bidirectional && !context.causal) {
    const int64_t width = context.width, e = options.hidden, z = options.z, modes = options.ema,
                  channels = two_sided_ ? 2 * width : width;
    const auto add = [this](const char* name, const torch::Tensor& value) {
      return register_parameter(name, value);
    };
    const auto small = [](at::IntArrayRef sizes) { return 0.02 * torch::randn(sizes); };
    delta_ = add("delta", 0.2 * torch::randn({channels, modes}));
    alpha_ = add("alpha", 0.2 * torch::randn({channels, modes}));
    beta_ = add("beta", small({channels, modes}) + 1 - 2 * torch::arange(modes).remainder(2));
    gamma_ = add("gamma", torch::randn({channels, modes}));
    omega_ = add("omega", torch::randn({width}));
    const auto layer = [&](const char* name, int64_t from, int64_t to) {
      torch::nn::Linear made = register_module(name, torch::nn::Linear(from, to));
      torch::nn::init::normal_(made->weight, 0, 0.02);
      torch::nn::init::zeros_(made->bias);
      return made;
    };
    value_ = layer("value", width, e);
    mixed_ = layer("mixed", width, 2 * width + z + e);
    hidden_ = layer("hidden", e, width);
    scale_ = add("scale", small({2, z}));
    shift_ = add("shift", torch::zeros({2, z}));
    distance_bias_ = add("distance_bias", small({2 * reach() - 1}));
  }

  bool length_invariant() const override { return true; }
  bool capturable() const override { return true; }
  json options() const override { return write_fields(options_); }

  int64_t flops(int64_t batch, int64_t length) const override {
    const int64_t width = context_.width, e = options_.hidden, z = options_.z,
                  chunk = options_.chunk == 0 ? length : std::min(options_.chunk, length);
    const int64_t products = 2 * width * (2 * e + 2 * width + z + e) + 2 * chunk * (z + e);
    return batch * length * products + 2 * beta_.numel() * lags(length) +
           ops::long_convolution_flops({.batch = batch, .length = length, .width = width});
  }

 protected:
  GatedRows mix(const torch::Tensor& u, const torch::Tensor& mask) override {
    const int64_t width = context_.width, e = options_.hidden, z = options_.z;
    if (options_.chunk == 0 && u.size(1) > context_.max_length) {
      throw Unsupported(
          fmt::format("mega was made for {} positions, not {}", context_.max_length, u.size(1)));
    }
    const auto apply = [&](const torch::Tensor& x, const torch::nn::Linear& layer) {
      const torch::ScalarType type = x.scalar_type();
      return ops::linear(context_.kernels, x, nullptr,
                         {{layer->weight.to(type), layer->bias.to(type)}}, mask);
    };
    const auto [valued, x] = apply(u, value_);
    const torch::Tensor averages =
        dropped(torch::silu(moving_average(x) + x * omega_.to(x.scalar_type())));
    const auto parts = apply(averages, mixed_).y[0].split_with_sizes({width, z, e, width}, -1);
    const torch::Tensor read = attend_chunks(torch::silu(parts[1]), torch::silu(valued[0]), mask);
    const torch::Tensor gated = read * torch::silu(parts[2]),
                        h = torch::silu(parts[3] + apply(gated, hidden_).y[0]);
    return {.y = h, .gate = parts[0].sigmoid()};
  }

 private:
  // Positions that a distance's bias is for.
  int64_t reach() const { return options_.chunk == 0 ? context_.max_length : options_.chunk; }

  // Taps of the moving average, to each side that is read.
  int64_t lags(int64_t length) const {
    return options_.truncation == 0 ? length : std::min(options_.truncation, length);
  }

  // Both directions count lag 0.
  torch::Tensor moving_average(const torch::Tensor& u) const {
    const int64_t length = u.size(1), width = context_.width, lags = this->lags(length);
    const torch::Tensor kernel = average_kernel(lags, u.scalar_type());
    if (!two_sided_) return ops::long_convolution(context_.kernels, {u, kernel, 0});
    const auto sides = kernel.split(width);  // behind, ahead
    const torch::Tensor taps = at::constant_pad_nd(sides[1].flip(1), {0, lags - 1}) +
                               at::constant_pad_nd(sides[0], {lags - 1, 0});
    return ops::long_convolution(context_.kernels, {u, taps, lags - 1});
  }

  // [D or 2D,lags], as a product of powers at √lags near and √lags far lags.
  torch::Tensor average_kernel(int64_t lags, torch::ScalarType type) const {
    const torch::Tensor damping = delta_.to(type).sigmoid(),
                        log_decay =
                            torch::log1p(-damping * alpha_.to(type).sigmoid()).unsqueeze(-1);
    const auto near = static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(lags))));
    const int64_t far = (lags + near - 1) / near;
    const torch::Tensor places = torch::arange(std::max(near, far), log_decay.options());
    const torch::Tensor weight =
        damping * beta_.to(type) * gamma_.to(type) / std::sqrt(static_cast<double>(options_.ema));
    const torch::Tensor of_near = (log_decay * places.narrow(0, 0, near)).exp(),
                        of_far = (log_decay * (places.narrow(0, 0, far) * near)).exp() *
                                 weight.unsqueeze(-1);  // [2D,h,..]
    return torch::bmm(of_far.transpose(1, 2), of_near).flatten(1).narrow(1, 0, lags);
  }

  // shared [B,N,z], values [B,N,E] -> [B,N,E]: attention within chunks, the last one padded.
  torch::Tensor attend_chunks(const torch::Tensor& shared, const torch::Tensor& values,
                              const torch::Tensor& mask) const {
    const int64_t batch = shared.size(0), length = shared.size(1),
                  chunk = options_.chunk == 0 ? length : std::min(options_.chunk, length),
                  chunks = (length + chunk - 1) / chunk, missing = chunks * chunk - length;
    const auto cut = [&](const torch::Tensor& x) {
      return (missing == 0 ? x : at::constant_pad_nd(x, {0, 0, 0, missing}))
          .reshape({batch * chunks, 1, chunk, -1});
    };
    const auto scales = scale_.to(shared.scalar_type()).unbind(),
               shifts = shift_.to(shared.scalar_type()).unbind();
    const auto form = [&](size_t i) { return cut(shared * scales[i] + shifts[i]); };
    const torch::Tensor keys = (missing == 0 ? mask : at::constant_pad_nd(mask, {0, missing}))
                                   .reshape({batch * chunks, chunk});
    const torch::Tensor read = attended(form(0), form(1), cut(values), keys);
    return read.reshape({batch, chunks * chunk, -1}).narrow(1, 0, length);
  }

  torch::Tensor dropped(const torch::Tensor& x) const {
    return context_.tied_dropout ? ops::tied_dropout(x, context_.dropout, is_training())
                                 : ops::philox_dropout(x, context_.dropout, is_training());
  }

  // q, k [C,1,c,z], v [C,1,c,E], keys [C,c]: of C chunks of c positions.
  torch::Tensor attended(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                         const torch::Tensor& keys) const {
    if (options_.attention != MegaWeights::softmax)
      return torch::matmul(weights(torch::matmul(q, k.transpose(2, 3)), keys), v);
    torch::Tensor bias = distance_bias_.to(q.scalar_type());
    if (context_.causal) {
      // So far below any score that nothing ahead has weight, and finite for what sees nothing.
      bias = torch::cat(
          {bias.narrow(0, 0, reach()), torch::full({reach() - 1}, -1e30, bias.options())});
    }
    return ops::softmax_attention(
        context_.kernels,
        {.q = q, .k = k, .v = v, .keys = keys, .queries = keys, .distance_bias = bias});
  }

  // Of scores [C,1,c,c] of queries and keys, which are real where `keys` [C,c] is; no softmax.
  torch::Tensor weights(const torch::Tensor& scores, const torch::Tensor& keys) const {
    const int64_t chunk = scores.size(3);
    const torch::Tensor bias = ops::reference::bias_of_pairs(
        distance_bias_.to(scores.scalar_type()), /*queries=*/chunk, /*keys=*/chunk);
    torch::Tensor seen = keys.view({-1, 1, 1, chunk});
    if (context_.causal)
      seen = seen.logical_and(torch::ones({chunk, chunk}, keys.options()).tril());
    const torch::Tensor hidden = seen.logical_not();
    const torch::Tensor count = seen.sum(-1, /*keepdim=*/true).clamp_min(1);
    const torch::Tensor logits = scores / count + bias;
    const torch::Tensor found =
        options_.attention == MegaWeights::relu2
            ? torch::relu(logits).square()
            : (torch::erf((logits - 0.707107) / (0.282095 * std::sqrt(2.0))) + 1) / 2;
    return found.masked_fill(hidden, 0);
  }

  const MegaOptions options_;
  const bool two_sided_;
  torch::Tensor delta_, alpha_, beta_, gamma_;  // [D or 2D,h]
  torch::Tensor omega_;                         // [D]
  torch::nn::Linear value_{nullptr}, mixed_{nullptr}, hidden_{nullptr};
  torch::Tensor scale_, shift_;  // of queries and keys [2,z]
  torch::Tensor distance_bias_;  // of key minus query [2M-1]
};

[[maybe_unused]] const bool mega_registered = register_attention<MegaAttention, MegaOptions>({
    .name = "mega",
    .title = "Mega",
    .paper = "Ma et al., ICLR 2023",
    .complexity = "O(N²), O(N c) in chunks; memory O(N) by the own kernel (softmax), O(N²) by "
                  "LibTorch's operators and of laplace and relu2",
    .softmax = Softmax::different,
    .linear = false,
    .state = "delta, alpha, beta, gamma [2D,h]; omega [D]; value, mixed, hidden; scale, shift "
             "[2,z]; distance_bias [2Nmax-1], or [2c-1]",
    .length_bound = true,
    .can_be_causal = true,
    .model_dropout = true,
    .why_unrotated = "it has a bias for each distance instead",
    .peer = "transformers",
    .unread_in_causal_form = {{"bidirectional", true}},
});

}  // namespace
}  // namespace lra
