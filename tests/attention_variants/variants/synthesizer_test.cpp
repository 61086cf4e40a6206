// The Synthesizer's kinds against softmax(R) V with R written out, its bound on the length, and
// what it holds in memory.
#include <cmath>

#include "attention_variants/projected_attention.h"
#include "tests/attention_variants/testing.h"
#include "tests/support/scratch.h"

namespace lra {
namespace {

const std::vector<std::string> kAttendKinds = {"synthesizer[rank=3]",  // narrower than the heads, 4
                                               "synthesizer[rank=4]",
                                               "synthesizer[rank=7]",  // wider
                                               "synthesizer[kind=random]"};

torch::Tensor named(Attention& attention, const std::string& name) {
  return attention.named_parameters()[name];
}

// The parameters beside the projections.
std::vector<torch::Tensor> own(Attention& attention) {
  std::vector<torch::Tensor> kept;
  for (const auto& parameter : attention.named_parameters()) {
    if (!is_projection(parameter.key())) kept.push_back(parameter.value());
  }
  return kept;
}

// R [H,N,N] of a kind that reads no tokens.
torch::Tensor scores(Attention& attention, int64_t n) {
  const torch::Tensor r = attention.options().at("kind") == "random"
                              ? named(attention, "r")
                              : named(attention, "r1").matmul(named(attention, "r2").mT());
  return r.narrow(1, 0, n).narrow(2, 0, n);
}

// softmax(r) v over the real tokens of each sample alone: r [B or 1,H,N,N], v [B,H,N,d].
torch::Tensor formula(const torch::Tensor& r, const torch::Tensor& v, const torch::Tensor& mask) {
  torch::Tensor out = torch::zeros_like(v);
  for (int64_t b = 0; b < v.size(0); ++b) {
    const torch::Tensor real = mask[b].nonzero().squeeze(1);
    if (real.numel() == 0) continue;
    const torch::Tensor weights =
        torch::softmax(r[r.size(0) == 1 ? 0 : b].index_select(1, real).index_select(2, real), -1);
    out[b].index_copy_(1, real, weights.matmul(v[b].index_select(1, real)));
  }
  return out;
}

// The parameters are small at first; larger ones tell right from wrong.
std::shared_ptr<Attention> spread(const std::string& spec) {
  auto attention = make(spec);
  const torch::NoGradGuard no_grad;
  for (torch::Tensor& parameter : own(*attention)) parameter.div_(parameter.std());
  return attention;
}

torch::Tensor scattered_mask(int64_t n) {
  torch::Tensor mask = length_mask({n, n / 2, 1, 0, n}, n);
  mask[4] = torch::arange(n).remainder(3).eq(1);
  return mask;
}

TEST(Synthesizer, EqualsTheFormulaOnRealTokensAlone) {
  for (const std::string& spec : kAttendKinds) {
    const auto attention = spread(spec);
    for (const int64_t n : {1, 2, 37, 64}) {
      Inputs in = make_inputs({n, n, n, n, n}, n);
      in.mask = scattered_mask(n);
      const torch::Tensor expected = formula(scores(*attention, n).unsqueeze(0), in.v, in.mask);
      EXPECT_LT(difference(attend(*attention, in), expected), 1e-13) << spec << ", N = " << n;
    }
  }
}

TEST(Synthesizer, GradientsAreThoseOfTheFormula) {
  for (const std::string& spec : kAttendKinds) {
    const auto attention = spread(spec);
    Inputs in = make_inputs({37, 37, 37, 37, 37}, 37);
    in.mask = scattered_mask(37);
    in.v.requires_grad_();
    std::vector<torch::Tensor> leaves = own(*attention);
    leaves.push_back(in.v);
    const auto gradients = [&](const torch::Tensor& out) {
      return torch::autograd::grad({(out * in.q).sum()}, leaves);
    };
    const auto ours = gradients(attend(*attention, in)),
               theirs = gradients(formula(scores(*attention, 37).unsqueeze(0), in.v, in.mask));
    for (size_t i = 0; i < leaves.size(); ++i)
      EXPECT_LT(difference(ours[i], theirs[i]), 1e-13) << spec << ", " << i;
  }
}

TEST(Synthesizer, ReadsTheValuesAlone) {
  for (const std::string& spec : kAttendKinds) {
    Inputs in = make_inputs({37, 20}, 37);
    const torch::Tensor expected = attend(*make(spec), in);
    in.q = torch::full_like(in.q, HUGE_VAL);
    in.k = torch::full_like(in.k, std::nan(""));
    EXPECT_TRUE(torch::equal(attend(*make(spec), in), expected)) << spec;
  }
}

TEST(Synthesizer, NothingAtPaddedPositionsMatters) {
  for (const std::string& spec : kAttendKinds) {
    const auto attention = make(spec);
    Inputs in = make_inputs({37, 20, 0}, 37);
    const torch::Tensor expected = attend(*attention, in);
    const torch::Tensor padded = in.mask.logical_not().unsqueeze(1).unsqueeze(-1);
    for (const double value : {1e30, HUGE_VAL, std::nan("")}) {
      attention->zero_grad();
      in.v = in.v.detach().masked_fill(padded, value).requires_grad_();
      const torch::Tensor out = attend(*attention, in);
      EXPECT_TRUE(torch::equal(out, expected)) << spec << ", " << value;
      out.sum().backward();
      EXPECT_TRUE(finite(in.v.grad())) << spec << ", " << value;
      for (const torch::Tensor& parameter : own(*attention))
        EXPECT_TRUE(finite(parameter.grad())) << spec << ", " << value;
    }
  }
}

// Logits that would overflow an exponential, at real and at padded keys.
TEST(Synthesizer, LargeLogitsStayFinite) {
  for (const std::string& spec : kAttendKinds) {
    for (const auto type : {torch::kFloat, torch::kBFloat16}) {
      const auto attention = spread(spec);
      attention->to(type);
      {
        const torch::NoGradGuard no_grad;
        for (torch::Tensor& parameter : own(*attention)) parameter.mul_(100);
      }
      Inputs in = make_inputs({41, 30, 0}, 41, type);
      in.v.requires_grad_();
      const torch::Tensor out = attend(*attention, in);
      EXPECT_TRUE(finite(out)) << spec;
      out.sum().backward();
      EXPECT_TRUE(finite(in.v.grad())) << spec;
      for (const torch::Tensor& parameter : own(*attention))
        EXPECT_TRUE(finite(parameter.grad())) << spec;
    }
  }
}

torch::Tensor random_tokens(int64_t batch, int64_t n) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(7);
  return torch::randn({batch, n, 8}, generator, torch::kDouble);
}

// The whole layer, written out.
torch::Tensor dense_formula(Attention& attention, const torch::Tensor& x,
                            const torch::Tensor& mask) {
  const auto heads = [&](const torch::Tensor& t) {
    return t.view({x.size(0), x.size(1), 2, 4}).transpose(1, 2);
  };
  const torch::Tensor hidden = torch::relu(heads(x.matmul(named(attention, "w1.weight").t())));
  const torch::Tensor r =
      hidden.matmul(named(attention, "w2").mT()).narrow(3, 0, x.size(1));  // [B,H,N,N]
  const torch::Tensor v =
      heads(x.matmul(named(attention, "value.weight").t()) + named(attention, "value.bias"));
  const torch::Tensor out = formula(r, v, mask).transpose(1, 2).reshape(x.sizes());
  return (out.matmul(named(attention, "output.weight").t()) + named(attention, "output.bias")) *
         mask.unsqueeze(-1);
}

TEST(SynthesizerDense, EqualsTheFormulaWithItsGradients) {
  const auto attention = spread("synthesizer[kind=dense]");
  for (const int64_t n : {1, 2, 37, 64}) {
    const torch::Tensor x = random_tokens(5, n).requires_grad_(), mask = scattered_mask(n);
    const torch::Tensor ours = attention->forward(x, mask),
                        theirs = dense_formula(*attention, x, mask);
    EXPECT_LT(difference(ours, theirs), 1e-13) << "N = " << n;
    std::vector<torch::Tensor> leaves = attention->parameters();
    leaves.push_back(x);
    const torch::Tensor weight = random_tokens(5, n).cos();
    const auto a = torch::autograd::grad({(ours * weight).sum()}, leaves),
               b = torch::autograd::grad({(theirs * weight).sum()}, leaves);
    for (size_t i = 0; i < leaves.size(); ++i) {
      EXPECT_LT(difference(a[i], b[i]), 1e-12) << "N = " << n << ", " << i;
      // With one position there is one weight, 1.
      EXPECT_GT(a[i].abs().max().item<double>(), n > 2 ? 1e-3 : -1) << i;
    }
  }
}

TEST(SynthesizerDense, PaddingAndOtherSamplesChangeNothing) {
  const auto attention = spread("synthesizer[kind=dense]");
  const torch::Tensor x = random_tokens(5, 41), mask = scattered_mask(41);
  const torch::Tensor expected = attention->forward(x, mask);
  const torch::Tensor padded = mask.logical_not().unsqueeze(-1);
  EXPECT_EQ((expected * padded).count_nonzero().item<int64_t>(), 0);
  for (const double value : {1e30, HUGE_VAL, std::nan("")}) {
    attention->zero_grad();
    const torch::Tensor other = x.masked_fill(padded, value).requires_grad_();
    const torch::Tensor out = attention->forward(other, mask);
    EXPECT_TRUE(torch::equal(out, expected)) << value;
    out.sum().backward();
    EXPECT_TRUE(finite(other.grad())) << value;
    for (const torch::Tensor& parameter : attention->parameters())
      EXPECT_TRUE(finite(parameter.grad())) << value;
  }
  for (int64_t b = 0; b < 5; ++b) {
    const torch::Tensor alone = attention->forward(x.narrow(0, b, 1), mask.narrow(0, b, 1));
    EXPECT_LT(difference(alone, expected.narrow(0, b, 1)), 1e-13);
  }
}

TEST(SynthesizerDense, TypesAgree) {
  const torch::Tensor x = random_tokens(2, 37), mask = length_mask({37, 20}, 37);
  const torch::Tensor expected = make("synthesizer[kind=dense]")->forward(x, mask);
  for (const auto& [type, tolerance] : {std::pair{torch::kFloat, 1e-5}, {torch::kBFloat16, 3e-2}}) {
    const torch::Tensor out = make("synthesizer[kind=dense]", type)->forward(x.to(type), mask);
    EXPECT_EQ(out.scalar_type(), type);
    EXPECT_LT(difference(out, expected), tolerance) << type;
  }
}

TEST(SynthesizerDense, ReadsTokensAndSoHasNoFormForQueriesKeysAndValues) {
  EXPECT_THROW(attend(*make("synthesizer[kind=dense]"), make_inputs({8}, 8)), Error);
}

TEST(Synthesizer, RefusesMorePositionsThanItHasParametersFor) {
  for (const char* kind : {"factorized", "random", "dense"}) {
    const auto attention = make(std::string("synthesizer[kind=") + kind + "]");
    const std::string message =
        error_text([&] { attention->forward(random_tokens(1, 65), length_mask({65}, 65)); });
    EXPECT_TRUE(contains(message, "64") && contains(message, "65")) << kind << ": " << message;
  }
}

TEST(Synthesizer, ParametersAreThoseOfItsKind) {
  const auto names = [](const std::string& spec) {
    std::vector<std::string> list;
    for (const auto& parameter : make(spec)->named_parameters()) {
      if (!is_projection(parameter.key()))
        list.push_back(parameter.key() + " " + c10::str(parameter.value().sizes()));
    }
    return list;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names("synthesizer"), (Names{"r1 [2, 64, 32]", "r2 [2, 64, 32]"}));
  EXPECT_EQ(names("synthesizer[rank=5]"), (Names{"r1 [2, 64, 5]", "r2 [2, 64, 5]"}));
  EXPECT_EQ(names("synthesizer[kind=random]"), (Names{"r [2, 64, 64]"}));
  const Names dense = names("synthesizer[kind=dense]");
  EXPECT_EQ(dense.size(), 2U);
  EXPECT_EQ(std::ranges::count(dense, "w1.weight [8, 8]"), 1);
  EXPECT_EQ(std::ranges::count(dense, "w2 [2, 64, 4]"), 1);
}

TEST(Synthesizer, CountsItsProducts) {
  const int64_t square = 2 * 32 * 32;  // of one head, a multiply-add being 2
  EXPECT_EQ(make("synthesizer[rank=7]")->flops(3, 32), 3 * 2 * square * (7 + 4));
  EXPECT_EQ(make("synthesizer[kind=random]")->flops(3, 32), 3 * 2 * square * 4);
  EXPECT_EQ(make("synthesizer[kind=dense]")->flops(3, 32),
            3 * 2 * (2 * 32 * 8 * 4 + square * (4 + 4)));
}

// Forward, and backward where `training`. The parameters' own gradients are made before.
int64_t synthesizer_peak(const std::string& spec, int64_t n, bool training) {
  const auto attention = make(spec, torch::kFloat,
                              {.width = 16, .heads = 2, .head_dim = 8, .max_length = n, .seed = 0});
  const torch::Tensor x = torch::randn({2, n, 16}), mask = length_mask({n, n / 2}, n);
  return peak_bytes([&] {
    const torch::AutoGradMode grad(training);
    const torch::Tensor out = attention->forward(x, mask);
    if (training) out.backward(torch::ones_like(out));
  });
}

TEST(Synthesizer, HoldsNoMatrixOverPositionsWhereRIsAProduct) {
  for (const char* spec : {"synthesizer", "synthesizer[rank=4]", "synthesizer[kind=dense]"}) {
    for (const bool training : {false, true}) {
      const int64_t small = synthesizer_peak(spec, 1024, training),
                    large = synthesizer_peak(spec, 2048, training);
      EXPECT_GT(small, 0);
      EXPECT_LT(static_cast<double>(large), 2.2 * static_cast<double>(small))
          << spec << (training ? " training" : " inference");
      EXPECT_LT(large, 2048 * 2048 * 4) << spec << (training ? " training" : " inference");
    }
  }
}

}  // namespace
}  // namespace lra
