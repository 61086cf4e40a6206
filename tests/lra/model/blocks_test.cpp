// Blocks against their formulas in plain torch operators, in float64, with gradients.
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>

#include "attention_variants/ops/dropout.h"
#include "lra/model/blocks/block.h"
#include "lra/model/blocks/norm.h"
#include "lra/model/blocks/rows.h"
#include "tests/lra/model/toy_model.h"

namespace lra::blocks {
namespace {

constexpr int64_t kWidth = 6, kHidden = 10;

// A mixer whose result and gate are easy to write down; `gates` says whether it gates its residual.
class ToyMixer : public Attention {
 public:
  explicit ToyMixer(bool gates) : gates_(gates) {
    mix_ = register_parameter("mix", torch::randn({kWidth, kWidth}) * 0.5);
    gate_ = register_parameter("gate", torch::randn({kWidth, kWidth}) * 0.5);
  }
  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& mask) override {
    const torch::Tensor real = mask.unsqueeze(-1);
    const torch::Tensor mean = (x * real).sum(1, /*keepdim=*/true) / real.sum(1, true);
    return torch::tanh((x + mean).matmul(mix_)) * real;
  }
  GatedRows forward_gated(const torch::Tensor& x, const torch::Tensor& mask) override {
    if (!gates_) return Attention::forward_gated(x, mask);
    return {.y = forward(x, mask), .gate = torch::sigmoid(x.matmul(gate_)) * mask.unsqueeze(-1)};
  }
  json options() const override { return json::object(); }

 private:
  bool gates_;
  torch::Tensor mix_, gate_;
};

ModelOptions options_of(BlockKind block, NormKind norm, NormPlacement placement) {
  ModelOptions options;
  options.block = block;
  options.norm_kind = norm;
  options.norm = placement;
  options.width = kWidth;
  options.feed_forward = kHidden;
  options.dropout = 0;
  return options;
}

// A block with its modules under their names, in float64 unless told otherwise.
struct Made {
  explicit Made(const ModelOptions& given, bool gates = false, bool wide = true) : options(given) {
    torch::manual_seed(5);
    block = make_block(options, std::make_shared<ToyMixer>(gates));
    block->register_in(modules, "");
    const torch::NoGradGuard no_grad;
    // Norms start at the identity, which would hide them.
    for (auto& item : modules.named_parameters()) {
      if (item.key().find("norm.") != std::string::npos)
        item.value().add_(torch::randn_like(item.value()) * 0.3);
    }
    if (wide) modules.to(torch::kDouble);
  }
  BlockPass pass(const torch::Tensor& mask, bool padding_counts = false) const {
    return {.options = options,
            .kernels = Kernels::fused,
            .training = modules.is_training(),
            .mask = mask,
            .real = padding_counts ? torch::Tensor() : mask};
  }
  torch::Tensor at(const std::string& name) const { return modules.named_parameters()[name]; }

  ModelOptions options;
  std::unique_ptr<Block> block;
  torch::nn::Module modules;
};

struct Rows {
  explicit Rows(torch::ScalarType type = torch::kDouble) {
    torch::manual_seed(7);
    x = torch::randn({3, 8, kWidth}, type) * 2 + 1;
    mask = torch::arange(8) < torch::tensor({8, 5, 1}).unsqueeze(1);
  }
  torch::Tensor x, mask;  // [3,8,6], [3,8]
};

// Of real rows; mean and variance of `batch` are theirs alone.
torch::Tensor normed(const Made& made, const std::string& name, const torch::Tensor& x,
                     const torch::Tensor& mask) {
  if (made.options.norm_kind == NormKind::scale) {
    return x / (x.pow(2).sum(-1, true) / kWidth + made.options.norm_eps).sqrt() *
           made.at(name + ".scale");
  }
  const bool batch = made.options.norm_kind == NormKind::batch;
  const torch::Tensor of = batch ? x.index({mask}) : x;  // [R,D]
  const int64_t over = batch ? 0 : -1;
  const torch::Tensor mean = of.mean(over, true), variance = (of - mean).pow(2).mean(over, true);
  return (x - mean) / (variance + made.options.norm_eps).sqrt() * made.at(name + ".weight") +
         made.at(name + ".bias");
}

torch::Tensor line(const Made& made, const std::string& name, const torch::Tensor& x) {
  return x.matmul(made.at(name + ".weight").t()) + made.at(name + ".bias");
}

torch::Tensor exact_gelu(const torch::Tensor& x) {
  return x * 0.5 * (1 + torch::erf(x / std::sqrt(2.0)));
}

torch::Tensor transformer_or_mega(const Made& made, const torch::Tensor& input,
                                  const torch::Tensor& mask) {
  const bool pre = made.options.norm == NormPlacement::pre,
             mega = made.options.block == BlockKind::mega;
  torch::Tensor x = input;
  const auto norm = [&](const std::string& name, const torch::Tensor& y) {
    return normed(made, name, y, mask);
  };
  const torch::Tensor read = pre ? norm("attention_norm", x) : x;
  const torch::Tensor h = made.block->attention()->forward(read, mask);
  if (mega) {
    const torch::Tensor u = torch::sigmoid(read.matmul(made.at("attention.gate")));
    x = u * h + (1 - u) * x;
  } else {
    x = x + h;
  }
  if (!pre) x = norm("attention_norm", x);
  if (made.options.feed_forward == 0) return x;
  const torch::Tensor inner = line(made, "feed_forward.0", pre ? norm("feed_forward_norm", x) : x);
  x = x + line(made, "feed_forward.3", mega ? inner * torch::sigmoid(inner) : exact_gelu(inner));
  return pre ? x : norm("feed_forward_norm", x);
}

torch::Tensor gated(const Made& made, const torch::Tensor& input, const torch::Tensor& mask) {
  const bool pre = made.options.norm == NormPlacement::pre;
  const torch::Tensor y =
      made.block->attention()->forward(pre ? normed(made, "norm", input, mask) : input, mask);
  const torch::Tensor g = exact_gelu(y);
  const auto sigma = [&](const torch::Tensor& rows) { return 1 / (1 + torch::exp(-rows)); };
  const Gate gate = made.options.block == BlockKind::s4 ? Gate::glu : made.options.gate;
  torch::Tensor z;
  switch (gate) {
    case Gate::glu: {
      const torch::Tensor both = line(made, "gate", g);
      z = both.slice(-1, 0, kWidth) * sigma(both.slice(-1, kWidth));
      break;
    }
    case Gate::full_glu:
      z = line(made, "value", g) * sigma(line(made, "gate", g));
      break;
    case Gate::half_glu1:
      z = g * sigma(line(made, "gate", g));
      break;
    case Gate::half_glu2:
      z = y * sigma(line(made, "gate", g));
      break;
    case Gate::activation:
      z = g;
  }
  return pre ? input + z : normed(made, "norm", input + z, mask);
}

torch::Tensor reference(const Made& made, const torch::Tensor& x, const torch::Tensor& mask) {
  const bool gates = made.options.block == BlockKind::s4 || made.options.block == BlockKind::s5;
  return gates ? gated(made, x, mask) : transformer_or_mega(made, x, mask);
}

using Gradients = std::map<std::string, torch::Tensor>;

// Of a sum of the real rows with fixed weights, by the rows and by all parameters.
Gradients gradients_of(Made& made, const Rows& rows,
                       const std::function<torch::Tensor(const torch::Tensor&)>& function) {
  const torch::Tensor x = rows.x.clone().requires_grad_(true);
  made.modules.zero_grad();
  torch::manual_seed(9);
  const torch::Tensor weights = torch::randn_like(rows.x);
  ((function(x) * weights).index({rows.mask}).sum()).backward();
  Gradients gradients{{"x", x.grad().index({rows.mask})}};
  for (const auto& item : made.modules.named_parameters()) {
    const torch::Tensor& gradient = item.value().grad();
    gradients[item.key()] = gradient.defined() ? gradient.clone() : torch::zeros_like(item.value());
  }
  return gradients;
}

void expect_as_reference(const ModelOptions& options, bool gates) {
  Made made(options, gates);
  const Rows rows;
  const BlockPass pass = made.pass(rows.mask);
  const auto block = [&](const torch::Tensor& x) { return made.block->forward(x, pass, nullptr); };
  const auto formula = [&](const torch::Tensor& x) { return reference(made, x, rows.mask); };
  SCOPED_TRACE(fmt::format("{} {} {} {} {}", to_string(options.block), to_string(options.norm_kind),
                           to_string(options.norm), to_string(options.gate), options.feed_forward));
  EXPECT_LT(distance(block(rows.x).index({rows.mask}), formula(rows.x).index({rows.mask})), 1e-11);
  const Gradients own = gradients_of(made, rows, block),
                  expected = gradients_of(made, rows, formula);
  for (const auto& [name, gradient] : expected)
    EXPECT_LT(distance(own.at(name), gradient), 1e-10) << name;
}

TEST(BlocksTest, ComputeTheirFormulas) {
  for (const BlockKind block : all_values<BlockKind>()) {
    for (const NormKind norm : all_values<NormKind>()) {
      for (const NormPlacement placement : all_values<NormPlacement>())
        expect_as_reference(options_of(block, norm, placement), block == BlockKind::mega);
    }
  }
}

TEST(BlocksTest, HaveEveryGateOfS5) {
  for (const Gate gate : all_values<Gate>()) {
    ModelOptions options = options_of(BlockKind::s5, NormKind::layer, NormPlacement::pre);
    options.gate = gate;
    expect_as_reference(options, false);
  }
}

TEST(BlocksTest, MayHaveNoFeedForwardBlock) {
  for (const BlockKind block : {BlockKind::transformer, BlockKind::mega}) {
    for (const NormPlacement placement : all_values<NormPlacement>()) {
      for (const NormKind norm : {NormKind::layer, NormKind::scale}) {
        ModelOptions options = options_of(block, norm, placement);
        options.feed_forward = 0;
        expect_as_reference(options, block == BlockKind::mega);
        EXPECT_TRUE(Made(options).block->linear_parameters().empty());
      }
    }
  }
}

// With dropout too: the single steps draw the masks that the joined operators draw.
TEST(BlocksTest, TheComposedTransformerIsTheFusedOne) {
  ModelOptions options = options_of(BlockKind::transformer, NormKind::layer, NormPlacement::pre);
  options.dropout = 0.3;
  const Rows rows(torch::kFloat);
  Made fused(options, false, false);
  options.block = BlockKind::mega;  // of a mixer without a gate: a plain sum, and SiLU
  Made composed(options, false, false);
  const auto run = [&](const Made& made) {
    torch::manual_seed(11);
    return made.block->forward(rows.x, made.pass(rows.mask), nullptr).index({rows.mask});
  };
  const torch::NoGradGuard no_grad;
  // Without the second half, whose activations differ.
  for (const Made* made : {&fused, &composed}) {
    made->at("feed_forward.3.weight").zero_();
    made->at("feed_forward.3.bias").zero_();
  }
  const torch::Tensor sum = run(fused);
  EXPECT_LT(distance(sum, run(composed)), 1e-6);
  EXPECT_GT(distance(sum, rows.x.index({rows.mask})), 0.1);
}

struct Normalised {
  Normalised(BatchStatistics statistics, double momentum) {
    options.width = kWidth;
    options.batch_statistics = statistics;
    options.batch_momentum = momentum;
    norm = BatchNorm(options);
    norm->to(torch::kDouble);
  }
  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& mask) {
    return norm->forward(x, {.options = options, .mask = mask, .real = mask});
  }
  // LibTorch's, of rows that all count: [R,D].
  torch::Tensor peer(const torch::Tensor& rows) {
    return torch::batch_norm(rows, torch::ones({kWidth}, torch::kDouble),
                             torch::zeros({kWidth}, torch::kDouble), peer_mean, peer_var,
                             norm->is_training(), options.batch_momentum, options.norm_eps, false);
  }
  void expect_equal_statistics() {
    EXPECT_LT(distance(norm->named_buffers()["running_mean"], peer_mean), 1e-13);
    EXPECT_LT(distance(norm->named_buffers()["running_var"], peer_var), 1e-13);
  }
  ModelOptions options;
  BatchNorm norm{nullptr};
  torch::Tensor peer_mean = torch::zeros({kWidth}, torch::kDouble),
                peer_var = torch::ones({kWidth}, torch::kDouble);
};

TEST(BatchNormTest, IsTorchsOverTheRowsThatCount) {
  for (const BatchStatistics statistics : all_values<BatchStatistics>()) {
    for (const bool padded : {false, true}) {
      Normalised both(statistics, 0.05);
      const Rows rows;
      const torch::Tensor mask = padded ? rows.mask : torch::ones_like(rows.mask);
      const torch::Tensor counts =
          statistics == BatchStatistics::all ? torch::ones_like(mask) : mask;
      for (int step = 0; step < 3; ++step) {
        const torch::Tensor x = rows.x + step;
        EXPECT_LT(distance(both.forward(x, mask).index({counts}), both.peer(x.index({counts}))),
                  1e-12);
      }
      both.expect_equal_statistics();
      both.norm->eval();
      EXPECT_LT(distance(both.forward(rows.x, mask).flatten(0, 1), both.peer(rows.x.flatten(0, 1))),
                1e-12);
      both.expect_equal_statistics();
    }
  }
}

// Rows that do not count go through the same function in training as in evaluation, as a mean over
// all rows, or an attention that sees padding, reads them.
TEST(BatchNormTest, GivesPaddingInTrainingWhatEvaluationGivesIt) {
  Normalised both(BatchStatistics::real, 1);
  const Rows rows;
  const torch::Tensor x = rows.x + 3, trained = both.forward(x, rows.mask);
  both.norm->eval();
  // The running variance is the unbiased one.
  const double count = rows.mask.sum().item<double>();
  const torch::Tensor evaluated =
      both.forward(x, rows.mask) * std::sqrt(count / (count - 1));  // the bias is 0
  ASSERT_FALSE(rows.mask.all().item<bool>());
  EXPECT_LT(distance(trained, evaluated), 1e-4);
  EXPECT_GT(trained.index({rows.mask.logical_not()}).abs().min().item<double>(), 0);
}

TEST(BatchNormTest, PaddingChangesNothing) {
  const Rows rows;
  Normalised clean(BatchStatistics::real, 0.1), dirty(BatchStatistics::real, 0.1);
  const torch::Tensor other =
      torch::where(rows.mask.unsqueeze(-1), rows.x, torch::full_like(rows.x, 1e6));
  EXPECT_EQ(distance(clean.forward(rows.x, rows.mask).index({rows.mask}),
                     dirty.forward(other, rows.mask).index({rows.mask})),
            0);
  for (const char* name : {"running_mean", "running_var"})
    EXPECT_TRUE(torch::equal(clean.norm->named_buffers()[name], dirty.norm->named_buffers()[name]));
}

TEST(TiedDropoutTest, DropsAChannelOfASampleAtAllItsPositions) {
  ModelOptions options;
  options.dropout = 0.4;
  options.dropout_kind = DropoutKind::tied;
  torch::manual_seed(3);
  const torch::Tensor x = torch::rand({40, 5, 30}) + 1;
  const torch::Tensor factor = drop(options, /*training=*/true, x) / x;  // [40,5,30]
  EXPECT_LT(distance(factor, factor.narrow(1, 0, 1).expand_as(factor)), 1e-6);
  const torch::Tensor kept = factor.select(1, 0);
  const double share = 1 - static_cast<double>(ops::dropout_threshold(0.4)) / 65536;
  EXPECT_LT((kept * (kept - 1 / share)).abs().max().item<double>(), 1e-5) << "0 or 1 / (1 - p)";
  EXPECT_NEAR((kept > 0).to(torch::kDouble).mean().item<double>(), 0.6, 0.05);
  EXPECT_FALSE(torch::equal(kept[0], kept[1]));
  EXPECT_TRUE(torch::equal(drop(options, /*training=*/false, x), x));
}

TEST(TiedDropoutTest, IsThatOfTheWholeBatchInItsParts) {
  ModelOptions options;
  options.dropout = 0.4;
  options.dropout_kind = DropoutKind::tied;
  const torch::Tensor x = torch::ones({6, 5, 30});
  const auto part = [&](int64_t begin, int64_t count) {
    const ops::BatchSlice slice(begin, count, at::detail::createCPUGenerator(42));
    return drop(options, /*training=*/true, x.narrow(0, begin, count));
  };
  const torch::Tensor whole = part(0, 6);
  EXPECT_TRUE(torch::equal(part(2, 3), whole.narrow(0, 2, 3)));
  EXPECT_TRUE(torch::equal(part(0, 6), whole));
}

}  // namespace
}  // namespace lra::blocks
