// Performer against its formula with every matrix written out, its random features, its redraws,
// and what it holds in memory.
#include <cmath>
#include <sstream>

#include "tests/attention_variants/testing.h"

namespace lra {
namespace {

torch::Tensor projection(Attention& attention) { return attention.named_buffers()["projection"]; }

enum class Maximum { attached, detached };

// φ of all positions of one sample [H,L,d], with m^-½.
torch::Tensor softmax_features(const torch::Tensor& x_given, const torch::Tensor& w, bool keys,
                               Maximum maximum) {
  const torch::Tensor x = x_given * std::pow(static_cast<double>(w.size(1)), -0.25);
  const torch::Tensor logits = torch::matmul(x, w.mT());  // [H,L,m]
  torch::Tensor c = keys ? logits.amax({-2, -1}, /*keepdim=*/true) : logits.amax(-1, true);
  if (maximum == Maximum::detached) c = c.detach();
  const torch::Tensor half = x.square().sum(-1, /*keepdim=*/true) / 2;
  return (torch::exp(logits - half - c) + 1e-4) / std::sqrt(static_cast<double>(w.size(0)));
}

torch::Tensor relu_features(const torch::Tensor& x, const torch::Tensor& w) {
  return torch::relu(torch::matmul(x * std::pow(static_cast<double>(w.size(1)), -0.25), w.mT())) +
         1e-3;
}

// q, k, v [H,L,d] of one sample; rows of k and v from `real` on count as zeros.
torch::Tensor normalised(const torch::Tensor& q_features, const torch::Tensor& k_features,
                         const torch::Tensor& v) {
  const torch::Tensor a = torch::matmul(q_features, k_features.mT());  // [H,L,L]
  return torch::matmul(a / a.sum(-1, /*keepdim=*/true), v);
}

// Of one token the result is its value, where no denominator is so small.
TEST(Performer, TheGuardIsOfTheDenominatorsOfEitherKernel) {
  const Inputs in = make_inputs({1}, 1);
  for (const char* kernel : {"softmax", "relu"}) {
    const auto guarded = [&](const char* guard) {
      return attend(*make(std::string("performer[num_features=64,guard=") + guard +
                          ",kernel=" + kernel + "]"),
                    in);
    };
    EXPECT_LT(difference(guarded("1e-3"), in.v), 1e-12) << kernel;
    EXPECT_GT(difference(guarded("1e3"), in.v), 1e-3) << kernel;
  }
}

TEST(Performer, EqualsTheFormulaOnRealTokensAlone) {
  const std::vector<int64_t> lengths = {53, 30, 3, 1};
  const Inputs in = make_inputs(lengths, 53);
  for (const char* kernel : {"softmax", "relu"}) {
    const auto attention = make(std::string("performer[num_features=19,kernel=") + kernel + "]");
    const torch::Tensor w = projection(*attention), out = attend(*attention, in);
    for (int64_t b = 0; b < 4; ++b) {
      const int64_t real = lengths[static_cast<size_t>(b)];
      const auto one = [&](const torch::Tensor& t) { return t[b].narrow(1, 0, real); };
      const torch::Tensor expected =
          kernel == std::string("relu")
              ? normalised(relu_features(one(in.q), w), relu_features(one(in.k), w), one(in.v))
              : normalised(softmax_features(one(in.q), w, /*keys=*/false, Maximum::attached),
                           softmax_features(one(in.k), w, /*keys=*/true, Maximum::attached),
                           one(in.v));
      EXPECT_LT(difference(one(out), expected), 1e-12) << kernel << ", " << real << " real tokens";
    }
  }
}

TEST(Performer, PrescaleKeepsZeroedPaddingInItsSums) {
  const Inputs in = make_inputs({53, 30, 1}, 53);
  const auto attention = make("performer[num_features=19,prescale=true]");
  const torch::Tensor w = projection(*attention), out = attend(*attention, in);
  const double scale = std::pow(4.0, -0.25);
  for (int64_t b = 0; b < 3; ++b) {
    const torch::Tensor real = in.mask[b].unsqueeze(-1);
    const torch::Tensor expected =
        normalised(softmax_features(in.q[b] * scale, w, /*keys=*/false, Maximum::attached),
                   softmax_features(in.k[b] * scale * real, w, /*keys=*/true, Maximum::attached),
                   in.v[b] * real);
    EXPECT_LT(difference(out[b], expected * real), 1e-12) << b;
  }
}

// The maximum is a part of the function, and so of its gradient; performer-pytorch detaches it.
TEST(Performer, GradientIncludesThatOfTheMaximum) {
  const Inputs in = make_inputs({20}, 20);
  const auto attention = make("performer[num_features=8]");
  const torch::Tensor w = projection(*attention),
                      weight = make_inputs({20}, 20, torch::kDouble, 2, 4, 6).q;
  const auto gradient = [&](const std::function<torch::Tensor(torch::Tensor, torch::Tensor)>& f) {
    const torch::Tensor q = in.q.clone().requires_grad_(), k = in.k.clone().requires_grad_();
    (f(q, k) * weight).sum().backward();
    return torch::stack({q.grad(), k.grad()});
  };
  const auto written_out = [&](Maximum maximum) {
    return gradient([&, maximum](const torch::Tensor& q, const torch::Tensor& k) {
      return normalised(softmax_features(q[0], w, /*keys=*/false, maximum),
                        softmax_features(k[0], w, /*keys=*/true, maximum), in.v[0]);
    });
  };
  const torch::Tensor ours = gradient([&](const torch::Tensor& q, const torch::Tensor& k) {
    return attention->attend(q, k, in.v, in.mask);
  });
  EXPECT_LT(difference(ours, written_out(Maximum::attached)), 1e-12);
  EXPECT_GT(difference(ours, written_out(Maximum::detached)), 1e-4);
}

// performer-pytorch ignores its kernel_fn unless another option is set.
TEST(Performer, KernelDecidesTheResult) {
  const Inputs in = make_inputs({40}, 40);
  EXPECT_GT(difference(attend(*make("performer[kernel=relu]"), in), attend(*make("performer"), in)),
            1e-2);
}

TEST(Performer, RowsAreOrthogonalInBlocksWithGaussianNorms) {
  const AttentionContext context{
      .width = 32, .heads = 2, .head_dim = 16, .max_length = 64, .seed = 3};
  const torch::Tensor w =
      projection(*make("performer[num_features=40]", torch::kDouble, context));  // 2.5 blocks
  ASSERT_EQ(w.sizes(), (std::vector<int64_t>{40, 16}));
  const torch::Tensor norms = w.norm(2, 1, /*keepdim=*/true);
  const torch::Tensor directions = w / norms, cosines = directions.matmul(directions.mT());
  for (const auto& [first, size] : {std::pair{0, 16}, {16, 16}, {32, 8}}) {
    const torch::Tensor block = cosines.narrow(0, first, size).narrow(1, first, size);
    EXPECT_LT(difference(block, torch::eye(size, torch::kDouble)), 1e-6);
  }
  EXPECT_GT(cosines.narrow(0, 0, 16).narrow(1, 16, 16).abs().max().item<double>(), 0.1);
  EXPECT_GT(norms.std().item<double>(), 0.1);  // not all √d
  EXPECT_NEAR(norms.square().mean().item<double>(), 16, 4 * std::sqrt(32.0 / 40));
  const torch::Tensor independent =
      projection(*make("performer[num_features=40,orthogonal=false]", torch::kDouble, context));
  EXPECT_GT(independent.narrow(0, 0, 16)
                .matmul(independent.narrow(0, 0, 16).mT())[0][1]
                .abs()
                .item<double>(),
            1e-3);
}

// An orthogonal factor with the library's signs has first entries of one sign, and a biased kernel.
TEST(Performer, DirectionsAreUniformOverTheSphere) {
  torch::Tensor sum = torch::zeros({4}, torch::kDouble);
  const int64_t draws = 400;
  for (int64_t seed = 0; seed < draws; ++seed) {
    const AttentionContext context{.width = 4,
                                   .heads = 1,
                                   .head_dim = 4,
                                   .max_length = 4,
                                   .seed = static_cast<uint64_t>(seed)};
    const torch::Tensor w =
        projection(*make("performer[num_features=1]", torch::kDouble, context))[0];
    sum += w / w.norm();
  }
  // Entries have mean 0 and variance 1/4: within 4 standard errors.
  EXPECT_LT((sum / draws).abs().max().item<double>(), 4 * 0.5 / std::sqrt(400.0));
}

// For inputs of small norm, where the features vary little and ε is small beside them; over seeds.
TEST(Performer, ErrorFallsWithFeatures) {
  Inputs in = make_inputs({64}, 64, torch::kDouble, 2, 16);
  in.q *= 0.3;
  in.k *= 0.3;
  const auto context = [](uint64_t seed) {
    return AttentionContext{
        .width = 32, .heads = 2, .head_dim = 16, .max_length = 64, .seed = seed};
  };
  const torch::Tensor exact = attend(*make("standard", torch::kDouble, context(0)), in);
  double last = 1e9;
  for (const int64_t m : {16, 64, 256, 1024}) {
    double error = 0;
    for (uint64_t seed = 0; seed < 8; ++seed) {
      const auto attention =
          make("performer[num_features=" + std::to_string(m) + "]", torch::kDouble, context(seed));
      error += ((attend(*attention, in) - exact).norm() / exact.norm()).item<double>() / 8;
    }
    EXPECT_LT(error, 0.7 * last) << m << " features";  // 1/√4 without ε
    last = error;
  }
  EXPECT_LT(last, 0.04);
}

TEST(Performer, RedrawsInTrainingOnly) {
  const Inputs in = make_inputs({20}, 20);
  const auto attention = make("performer[num_features=8,redraw_interval=3]");
  const torch::Tensor first = projection(*attention).clone();
  for (int i = 0; i < 10; ++i) attend(*attention, in);
  EXPECT_TRUE(torch::equal(projection(*attention), first));
  std::vector<torch::Tensor> drawn;
  attention->train();
  for (int i = 0; i < 9; ++i) {
    attend(*attention, in);
    drawn.push_back(projection(*attention).clone());
  }
  for (size_t i = 0; i < 9; ++i) {
    EXPECT_EQ(torch::equal(drawn[i], first), i < 3) << i;
    if (i > 0) {
      EXPECT_EQ(torch::equal(drawn[i], drawn[i - 1]), i % 3 != 0) << i;
    }
  }
  attention->eval();
  const torch::Tensor out = attend(*attention, in);
  EXPECT_TRUE(torch::equal(attend(*attention, in), out));
  EXPECT_FALSE(make("performer")->named_buffers().contains("redraw.forwards"));
}

TEST(Performer, ResumedRunRedrawsAsTheUninterruptedOne) {
  const Inputs in = make_inputs({20}, 20);
  const std::string spec = "performer[num_features=8,redraw_interval=2]";
  const auto straight = make(spec);
  straight->train();
  for (int i = 0; i < 3; ++i) attend(*straight, in);
  std::stringstream stream;
  torch::serialize::OutputArchive saved;
  straight->save(saved);
  saved.save_to(stream);
  const auto resumed = make(spec);
  torch::serialize::InputArchive loaded;
  loaded.load_from(stream);
  resumed->load(loaded);
  resumed->train();
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(torch::equal(attend(*straight, in), attend(*resumed, in))) << i;
  }
}

TEST(Performer, CountsForwardsExactlyInBfloat16) {
  const Inputs in = make_inputs({4}, 4, torch::kBFloat16);
  const auto attention = make("performer[num_features=2,redraw_interval=300]", torch::kBFloat16);
  const torch::Tensor first = projection(*attention).clone();
  attention->train();
  for (int i = 0; i < 300; ++i) attend(*attention, in);
  EXPECT_TRUE(torch::equal(projection(*attention), first));
  attend(*attention, in);
  EXPECT_FALSE(torch::equal(projection(*attention), first));
}

// A redraw between a forward and its backward, as with two forwards before one backward.
TEST(Performer, RedrawLeavesEarlierGraphsAlone) {
  const Inputs in = make_inputs({20}, 20);
  const auto gradient = [&](bool second) {
    const auto attention = make("performer[num_features=8,redraw_interval=1]");
    attention->train();
    const torch::Tensor q = in.q.clone().requires_grad_();
    const torch::Tensor out = attention->attend(q, in.k, in.v, in.mask);
    if (second) attend(*attention, in);
    out.sum().backward();
    return q.grad();
  };
  EXPECT_TRUE(torch::equal(gradient(true), gradient(false)));
}

TEST(Performer, OneFeatureAndFarNegativeLogitsStayFinite) {
  const auto attention = make("performer[num_features=1]", torch::kFloat);
  Inputs in = make_inputs({1, 3, 0}, 7, torch::kFloat);
  // wᵀx̂ near -1000 at real positions; the zeros at padded ones must not stand as exp(1000).
  const torch::Tensor w = projection(*attention)[0];
  in.q = (-1000 * w / w.square().sum()).expand(in.q.sizes()).clone().requires_grad_();
  in.k = in.q.detach().clone().requires_grad_();
  in.v.requires_grad_();
  const torch::Tensor out = attend(*attention, in);
  out.sum().backward();
  EXPECT_TRUE(finite(out));
  EXPECT_TRUE(finite(in.q.grad()) && finite(in.k.grad()) && finite(in.v.grad()));
}

// The features [B,H,N,m] are 64 times q here: inference holds them once at a time, training those
// of queries and of keys and one gradient.
TEST(Performer, HoldsEachFeatureMatrixOnce) {
  const int64_t n = 4096, m = 256, features = n * m * 4;
  for (const char* kernel : {"softmax", "relu"}) {
    const auto attention =
        make("performer[num_features=256,kernel=" + std::string(kernel) + "]", torch::kFloat,
             {.width = 4, .heads = 1, .head_dim = 4, .max_length = n, .seed = 0});
    for (const bool training : {false, true}) {
      Inputs in = make_inputs({n}, n, torch::kFloat, 1, 4);
      for (torch::Tensor* t : {&in.q, &in.k, &in.v}) t->set_requires_grad(training);
      const torch::Tensor gradient = torch::ones_like(in.q);
      const int64_t peak = peak_bytes([&] {
        torch::AutoGradMode grad(training);
        torch::Tensor out = attend(*attention, in);
        if (training) out.backward(gradient);
      });
      EXPECT_LT(static_cast<double>(peak) / static_cast<double>(features), training ? 4.3 : 1.3)
          << kernel << (training ? ", training" : ", inference");
    }
  }
}

}  // namespace
}  // namespace lra
