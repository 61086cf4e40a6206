// Mega against its equations, position by position.
#include <cmath>

#include "tests/attention_variants/mixers.h"

namespace lra {
namespace {

// The moving average of one direction by its recurrence, s_t = q s_{t-1} + p β u_t read by γ / √h;
// with a truncation the sum over that many lags.
torch::Tensor average(const Attention& attention, const torch::Tensor& u, int64_t first_channel,
                      bool reversed) {
  const auto of = [&](const char* name) {
    return parameter(attention, name).narrow(0, first_channel, u.size(2));
  };
  const torch::Tensor p = of("delta").sigmoid(), q = 1 - p * of("alpha").sigmoid();
  const int64_t length = u.size(1), lags = attention.options()["truncation"].get<int64_t>();
  const auto at = [&](int64_t i) { return reversed ? length - 1 - i : i; };
  std::vector<torch::Tensor> rows(static_cast<size_t>(length));
  torch::Tensor state = torch::zeros({u.size(0), u.size(2), p.size(1)}, torch::kDouble);
  for (int64_t i = 0; i < length; ++i) {
    state = q * state + p * of("beta") * u.select(1, at(i)).unsqueeze(-1);
    if (lags > 0 && i >= lags) {
      state = state - q.pow(static_cast<double>(lags)) * p * of("beta") *
                          u.select(1, at(i - lags)).unsqueeze(-1);
    }
    rows[static_cast<size_t>(at(i))] =
        (state * of("gamma")).sum(-1) / std::sqrt(static_cast<double>(p.size(1)));
  }
  return torch::stack(rows, 1);
}

double weight_scale(const Attention& attention) {
  return 1 / std::sqrt(attention.options()["z"].get<double>());
}

// A v of one sample, query by query: q, k [N,z], v [N,E], real [N].
torch::Tensor attended(const Attention& attention, const torch::Tensor& q, const torch::Tensor& k,
                       const torch::Tensor& v, const torch::Tensor& real, bool causal) {
  const json options = attention.options();
  const int64_t length = q.size(0), chunk = options["chunk"].get<int64_t>();
  const torch::Tensor bias = parameter(attention, "distance_bias");
  std::vector<torch::Tensor> rows;
  for (int64_t i = 0; i < length; ++i) {
    std::vector<torch::Tensor> scores;
    std::vector<int64_t> keys;
    for (int64_t j = 0; j < length; ++j) {
      if (chunk > 0 && i / chunk != j / chunk) continue;
      if (!real[j].item<bool>() || (causal && j > i)) continue;
      keys.push_back(j);
    }
    torch::Tensor sum = torch::zeros({v.size(1)}, torch::kDouble);
    if (!keys.empty()) {
      const torch::Tensor at = torch::tensor(keys);
      const torch::Tensor b = bias.index_select(0, at - i + (bias.size(0) - 1) / 2),
                          products = k.index_select(0, at).matmul(q[i]);
      torch::Tensor w;
      if (options["attention"] == "softmax") {
        w = torch::softmax(products * weight_scale(attention) + b, 0);
      } else {
        const torch::Tensor x = products / static_cast<double>(keys.size()) + b;
        w = options["attention"] == "relu2"
                ? x.clamp_min(0).square()
                : 0.5 * (1 + torch::erf((x - 0.707107) / (0.282095 * std::sqrt(2.0))));
      }
      sum = w.matmul(v.index_select(0, at));
    }
    rows.push_back(sum);
  }
  return torch::stack(rows);
}

// What forward() gives: u (h - x).
torch::Tensor equations(const Attention& attention, const torch::Tensor& u,
                        const torch::Tensor& mask, bool causal = false) {
  const auto linear = [&](const std::string& name, const torch::Tensor& x) {
    return torch::linear(x, parameter(attention, name + ".weight"),
                         parameter(attention, name + ".bias"));
  };
  torch::Tensor mean = average(attention, u, 0, /*reversed=*/false);
  if (attention.options()["bidirectional"] && !causal)
    mean = mean + average(attention, u, u.size(2), /*reversed=*/true);
  const torch::Tensor m = torch::silu(mean + parameter(attention, "omega") * u),
                      v = torch::silu(linear("value", u));
  const int64_t z = attention.options()["z"], e = attention.options()["hidden"], d = u.size(2);
  const auto parts = linear("mixed", m).split_with_sizes({d, z, e, d}, -1);
  const torch::Tensor shared = torch::silu(parts[1]), scale = parameter(attention, "scale"),
                      shift = parameter(attention, "shift");
  std::vector<torch::Tensor> read;
  for (int64_t b = 0; b < u.size(0); ++b) {
    read.push_back(attended(attention, shared[b] * scale[0] + shift[0],
                            shared[b] * scale[1] + shift[1], v[b], mask[b], causal));
  }
  const torch::Tensor h =
      torch::silu(parts[3] + linear("hidden", torch::stack(read) * torch::silu(parts[2])));
  return parts[0].sigmoid() * (h - u);
}

TEST(Mega, EqualsItsEquations) {
  for (const char* options : {"ema=3,z=4,hidden=5", "ema=2,z=4,hidden=5,chunk=4,truncation=3",
                              "ema=2,z=4,hidden=5,attention=laplace,bidirectional=false,chunk=7",
                              "ema=2,z=4,hidden=5,attention=relu2"}) {
    SCOPED_TRACE(options);
    const auto attention = mixer(fmt::format("mega[{}]", options));
    for (const int64_t n : {1, 2, 9, 13}) {
      MixerRows in = mixer_rows({n, (n + 1) / 2, n, 0}, n);
      in.mask[2] = torch::arange(n).remainder(3).ne(1);
      expect_formula(*attention, in,
                     [&](const torch::Tensor& u) { return equations(*attention, u, in.mask); });
    }
  }
}

TEST(Mega, GivesABlockWhatItGates) {
  const auto attention = mixer("mega[z=4,hidden=5]");
  const MixerRows in = mixer_rows({9, 4}, 9);
  const auto [y, gate] = attention->forward_gated(in.x, in.mask);
  const torch::Tensor x = in.x * in.mask.unsqueeze(-1);
  EXPECT_LT(difference(gate * (y - x), attention->forward(in.x, in.mask)), 1e-13);
  EXPECT_EQ((gate * in.mask.logical_not().unsqueeze(-1)).count_nonzero().item<int64_t>(), 0);
}

// What is dropped shows in the gate, as weights of one and no bias hand it the averages.
TEST(Mega, DropsAChannelWholeWhereTheModelDoes) {
  const torch::Tensor x = mixer_rows({9, 9}, 9).x, mask = torch::ones({2, 9}, torch::kBool);
  const auto kept_of = [&](bool tied) {
    const auto attention = make("mega[z=4,hidden=5]", torch::kDouble,
                                {.width = kMixerWidth,
                                 .heads = 1,
                                 .head_dim = kMixerWidth,
                                 .max_length = 64,
                                 .seed = 3,
                                 .dropout = 0.5,
                                 .tied_dropout = tied});
    const torch::NoGradGuard no_grad;
    torch::Tensor weight = parameter(*attention, "mixed.weight");
    weight.narrow(0, 0, kMixerWidth).copy_(torch::eye(kMixerWidth));
    attention->train();
    torch::manual_seed(5);
    return attention->forward_gated(x, mask).gate != 0.5;  // [B,N,D]
  };
  const torch::Tensor tied = kept_of(true), plain = kept_of(false);
  EXPECT_TRUE(torch::equal(tied, tied.narrow(1, 0, 1).expand_as(tied)));
  EXPECT_TRUE(tied.any().item<bool>() && !tied.all().item<bool>());
  EXPECT_FALSE(torch::equal(plain, plain.narrow(1, 0, 1).expand_as(plain)));
}

TEST(Mega, ChunksOfAllPositionsAreNone) {
  const auto whole = mixer("mega[z=4,hidden=5]"), chunked = mixer("mega[z=4,hidden=5,chunk=64]");
  const MixerRows in = mixer_rows({40, 13}, 40);
  EXPECT_LT(difference(chunked->forward(in.x, in.mask), whole->forward(in.x, in.mask)), 1e-13);
}

TEST(Mega, IsOneSidedWhereItIsCausal) {
  for (const char* spec : {"mega[z=4,hidden=5]", "mega[z=4,hidden=5,attention=laplace,chunk=16]"}) {
    expect_causal(spec);
    expect_reads_ahead(spec);
    const auto attention = mixer(spec, /*causal=*/true);
    const MixerRows in = mixer_rows({9, 4}, 9);
    expect_formula(*attention, in, [&](const torch::Tensor& u) {
      return equations(*attention, u, in.mask, /*causal=*/true);
    });
  }
}

TEST(Mega, StartsAsPublished) {
  const auto attention = mixer("mega[ema=16]", /*causal=*/false, /*width=*/64);
  const auto deviation = [&](const char* name) {
    return parameter(*attention, name).std().item<double>();
  };
  EXPECT_NEAR(deviation("delta"), 0.2, 0.02);
  EXPECT_NEAR(deviation("alpha"), 0.2, 0.02);
  EXPECT_NEAR(deviation("gamma"), 1, 0.1);
  EXPECT_NEAR(deviation("mixed.weight"), 0.02, 0.001);
  const torch::Tensor beta = parameter(*attention, "beta").mean(0);
  for (int64_t h = 0; h < 16; ++h)
    EXPECT_NEAR(beta[h].item<double>(), h % 2 == 0 ? 1 : -1, 0.02) << h;
  for (const char* name : {"mixed.bias", "shift"})
    EXPECT_EQ(parameter(*attention, name).count_nonzero().item<int64_t>(), 0) << name;
}

TEST(Mega, RefusesWhatIsLongerThanItsBias) {
  const MixerRows in = mixer_rows({65}, 65);
  EXPECT_THROW(mixer("mega")->forward(in.x, in.mask), Unsupported);
  EXPECT_NO_THROW(mixer("mega[chunk=16]")->forward(in.x, in.mask));
}

TEST(Mega, MemoryOfChunksGrowsLinearly) { expect_linear_memory("mega[z=4,hidden=5,chunk=64]"); }

}  // namespace
}  // namespace lra
