// Linformer against its formula with every matrix written out, its limit, and what its projections
// are.
#include <cmath>

#include "attention_variants/projected_attention.h"
#include "tests/attention_variants/testing.h"

namespace lra {
namespace {

// One sample, its real tokens alone: q, k, v [H,L,d], e and f [k,Nmax] or [H,k,Nmax].
torch::Tensor linformer_formula(const torch::Tensor& q, const torch::Tensor& k,
                                const torch::Tensor& v, const torch::Tensor& e,
                                const torch::Tensor& f) {
  const torch::Tensor keys = torch::matmul(e.narrow(-1, 0, k.size(1)), k),
                      values = torch::matmul(f.narrow(-1, 0, k.size(1)), v);  // [H,k,d]
  const double s = 1 / std::sqrt(static_cast<double>(q.size(-1)));
  return torch::matmul(torch::softmax(s * q.matmul(keys.mT()), -1), values);
}

// Projections at which weights are neither even nor all on one key.
void enlarge(Attention& attention) {
  const torch::NoGradGuard no_grad;
  for (auto& parameter : attention.named_parameters()) {
    if (!is_projection(parameter.key())) parameter.value().mul_(20);
  }
}

TEST(Linformer, EqualsTheFormulaOnRealTokensAlone) {
  const std::vector<int64_t> lengths = {53, 30, 3, 1};
  const Inputs in = make_inputs(lengths, 53);  // max_length is 64
  for (const char* sharing : {"headwise", "none", "key_value", "heads_only"}) {
    const auto attention =
        make(std::string("linformer[projected_length=7,sharing=") + sharing + "]");
    enlarge(*attention);
    const auto state = attention->named_parameters();
    const torch::Tensor e = state["projection.key"];
    const torch::Tensor* const value = state.find("projection.value");
    const torch::Tensor out = attend(*attention, in);
    for (int64_t b = 0; b < 4; ++b) {
      const int64_t real = lengths[static_cast<size_t>(b)];
      const auto one = [&](const torch::Tensor& t) { return t[b].narrow(1, 0, real); };
      EXPECT_LT(difference(one(out), linformer_formula(one(in.q), one(in.k), one(in.v), e,
                                                       value == nullptr ? e : *value)),
                1e-13)
          << sharing << ", " << real << " real tokens";
    }
  }
}

TEST(Linformer, StateIsWhatSharingLeaves) {
  const std::vector<int64_t> for_all = {9, 64}, per_head = {2, 9, 64};
  for (const auto& [sharing, shape, apart] : {std::tuple{"headwise", for_all, true},
                                              {"none", per_head, true},
                                              {"key_value", for_all, false},
                                              {"heads_only", per_head, false}}) {
    const auto state = make(std::string("linformer[projected_length=9,sharing=") + sharing + "]")
                           ->named_parameters();
    EXPECT_EQ(state["projection.key"].sizes(), shape) << sharing;
    ASSERT_EQ(state.contains("projection.value"), apart) << sharing;
    if (!apart) continue;
    EXPECT_EQ(state["projection.value"].sizes(), shape) << sharing;
    EXPECT_GT(difference(state["projection.key"], state["projection.value"]), 1e-3) << sharing;
  }
}

TEST(Linformer, ProjectionsAreDrawnAsTheOptionSays) {
  const AttentionContext context{
      .width = 8, .heads = 2, .head_dim = 4, .max_length = 4096, .seed = 3};
  const torch::Tensor normal = make("linformer[projected_length=16]", torch::kDouble, context)
                                   ->named_parameters()["projection.key"];
  EXPECT_NEAR(normal.mean().item<double>(), 0, 0.02 * 4 / 256);  // 4 standard errors
  EXPECT_NEAR(normal.std().item<double>(), 0.02, 0.02 * 0.02);
  const torch::Tensor uniform =
      make("linformer[projected_length=16,init=uniform]", torch::kDouble, context)
          ->named_parameters()["projection.key"];
  EXPECT_LE(uniform.abs().max().item<double>(), 0.25);
  EXPECT_NEAR(uniform.std().item<double>(), 0.25 / std::sqrt(3.0), 0.003);
}

// With the identity as projection nothing is lost.
TEST(Linformer, IdentityProjectionIsSoftmaxAttention) {
  const Inputs in = make_inputs({64}, 64);
  const auto attention = make("linformer[projected_length=64,sharing=key_value]");
  {
    const torch::NoGradGuard no_grad;
    attention->named_parameters()["projection.key"].copy_(torch::eye(64));
  }
  EXPECT_LT(difference(attend(*attention, in), attend(*make("standard"), in)), 1e-13);
}

// One released version keeps its projection in a class: models made later share it, or lose theirs.
TEST(Linformer, ProjectionBelongsToOneModel) {
  const Inputs in = make_inputs({40}, 40);
  const auto first = make("linformer[sharing=heads_only]");
  const torch::Tensor before = attend(*first, in);
  const auto second = make("linformer[sharing=heads_only]", torch::kDouble,
                           {.width = 8, .heads = 2, .head_dim = 4, .max_length = 64, .seed = 4});
  enlarge(*second);
  EXPECT_TRUE(torch::equal(attend(*first, in), before));
  EXPECT_GT(difference(attend(*second, in), before), 1e-3);
}

TEST(Linformer, OneProjectedPositionIsOneValueForAllQueries) {
  const Inputs in = make_inputs({17, 0}, 17);
  const torch::Tensor out = attend(*make("linformer[projected_length=1]"), in);
  EXPECT_LT(difference(out[0], out[0].narrow(1, 0, 1).expand({-1, 17, -1})), 1e-14);
  EXPECT_GT(out[0].abs().max().item<double>(), 1e-3);
}

TEST(Linformer, RefusesWhatItsProjectionsDoNotReach) {
  const auto attention = make("linformer[sharing=none]");
  EXPECT_THROW(attend(*attention, make_inputs({65}, 65)), Unsupported);
  EXPECT_NO_THROW(attend(*attention, make_inputs({64}, 64)));
  EXPECT_THROW(attend(*attention, make_inputs({9}, 9, torch::kDouble, 3)), Error);
}

// d small and k large, so that N x k would stand out: it is 32 times q.
TEST(Linformer, HoldsNoMatrixOverPositions) {
  const auto peak = [](int64_t n, bool training) {
    const auto attention =
        make("linformer[projected_length=256]", torch::kFloat,
             {.width = 16, .heads = 2, .head_dim = 8, .max_length = 8192, .seed = 0});
    Inputs in = make_inputs({n}, n, torch::kFloat, 2, 8);
    for (torch::Tensor* t : {&in.q, &in.k, &in.v}) t->set_requires_grad(training);
    const torch::Tensor gradient = torch::ones_like(in.q);
    // The projections' gradients [k,Nmax] are parameters' and do not grow with n.
    return peak_bytes([&] {
      torch::AutoGradMode grad(training);
      torch::Tensor out = attend(*attention, in);
      if (training) out.backward(gradient);
    });
  };
  const int64_t n = 4096, product = 2 * n * 256 * 4;
  for (const bool training : {false, true}) {
    const int64_t growth = peak(2 * n, training) - peak(n, training);
    EXPECT_GT(growth, 0);
    EXPECT_LT(growth, training ? 3 * product / 4 : product / 4)
        << (training ? "training" : "inference");
  }
}

}  // namespace
}  // namespace lra
