// For the tests of variants that are their whole layer: rows, parameters by name, and comparison
// with a formula, gradients included.
#pragma once

#include <string>
#include <vector>

#include "tests/attention_variants/testing.h"

namespace lra {

inline constexpr int64_t kMixerWidth = 6;

struct MixerRows {
  torch::Tensor x;     // [B,N,D] float64
  torch::Tensor mask;  // [B,N]
};

inline MixerRows mixer_rows(const std::vector<int64_t>& lengths, int64_t length,
                            int64_t width = kMixerWidth, uint64_t seed = 1) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  return {torch::randn({static_cast<int64_t>(lengths.size()), length, width}, generator,
                       torch::kDouble),
          length_mask(lengths, length)};
}

inline std::shared_ptr<Attention> mixer(const std::string& spec, bool causal = false,
                                        int64_t width = kMixerWidth) {
  return make(spec, torch::kDouble,
              {.width = width,
               .heads = 1,
               .head_dim = width,
               .max_length = 64,
               .seed = 3,
               .causal = causal});
}

inline torch::Tensor parameter(const Attention& attention, const std::string& name) {
  return attention.named_parameters()[name];
}

/// Of a complex parameter that is stored as [...,2].
inline torch::Tensor complex_parameter(const Attention& attention, const std::string& name) {
  return torch::view_as_complex(parameter(attention, name));
}

/// The mixer's rows and gradients are those of `formula` of rows that are zero at padding.
template <class Formula>
void expect_formula(Attention& attention, const MixerRows& in, const Formula& formula,
                    double tolerance = 1e-9) {
  const torch::Tensor real = in.mask.unsqueeze(-1).to(torch::kDouble),
                      weight = mixer_rows(std::vector<int64_t>(in.x.size(0), 1), in.x.size(1),
                                          in.x.size(2), /*seed=*/2)
                                   .x;
  std::vector<torch::Tensor> leaves = {in.x.clone().requires_grad_()};
  std::vector<std::string> names = {"x"};
  for (const auto& item : attention.named_parameters()) {
    leaves.push_back(item.value());
    names.push_back(item.key());
  }
  const auto found = [&](const torch::Tensor& out) {
    std::vector<torch::Tensor> all =
        torch::autograd::grad({(out * weight).sum()}, leaves, {}, /*retain_graph=*/std::nullopt,
                              /*create_graph=*/false, /*allow_unused=*/true);
    for (size_t i = 0; i < all.size(); ++i) {
      if (!all[i].defined()) all[i] = torch::zeros_like(leaves[i]);
    }
    all.insert(all.begin(), out.detach());
    return all;
  };
  const std::vector<torch::Tensor> ours = found(attention.forward(leaves[0], in.mask)),
                                   exact = found(formula(leaves[0] * real) * real);
  for (size_t i = 0; i < ours.size(); ++i) {
    EXPECT_LT(difference(ours[i], exact[i]), tolerance)
        << (i == 0 ? "output" : "gradient of " + names[i - 1]) << ", N = " << in.x.size(1);
  }
}

/// Several lengths, with padding at the end and anywhere.
template <class Formula>
void expect_formula_at_lengths(Attention& attention, const Formula& formula) {
  for (const int64_t n : {1, 2, 9, 24}) {
    MixerRows in = mixer_rows({n, (n + 1) / 2, n, 0}, n);
    in.mask[2] = torch::arange(n).remainder(3).ne(1);
    expect_formula(attention, in, formula);
  }
}

/// What stands at a position changes nothing before it, and something after it; the options stay
/// those given.
inline void expect_causal(const std::string& spec) {
  const auto attention = mixer(spec, /*causal=*/true);
  EXPECT_EQ(attention->options(), mixer(spec)->options());
  const MixerRows in = mixer_rows({24, 24}, 24);
  torch::Tensor changed = in.x.clone();
  changed.narrow(1, 10, 1) += 1;
  const torch::Tensor change =
      attention->forward(changed, in.mask) - attention->forward(in.x, in.mask);
  EXPECT_LT(change.narrow(1, 0, 10).abs().max().item<double>(), 1e-12) << spec;
  EXPECT_GT(change.narrow(1, 11, 1).abs().max().item<double>(), 1e-6) << spec;
}

/// Not causal, something changes before it too.
inline void expect_reads_ahead(const std::string& spec) {
  const auto attention = mixer(spec);
  const MixerRows in = mixer_rows({24, 24}, 24);
  torch::Tensor changed = in.x.clone();
  changed.narrow(1, 10, 1) += 1;
  const torch::Tensor change =
      attention->forward(changed, in.mask) - attention->forward(in.x, in.mask);
  EXPECT_GT(change.narrow(1, 9, 1).abs().max().item<double>(), 1e-6) << spec;
}

inline void expect_slow_parameters_exist(const std::string& spec) {
  const auto attention = mixer(spec);
  EXPECT_FALSE(attention->slow_parameters().empty());
  for (const std::string& name : attention->slow_parameters())
    EXPECT_TRUE(attention->named_parameters().contains(name)) << spec << ", " << name;
}

/// Peak memory of a pass grows with the length.
inline void expect_linear_memory(const std::string& spec) {
  const auto peak_of = [&](int64_t n, bool training) {
    const auto attention = make(
        spec, torch::kFloat, {.width = 8, .heads = 1, .head_dim = 8, .max_length = n, .seed = 3});
    const torch::Tensor mask = length_mask({n, n / 2}, n),
                        x = torch::randn({2, n, 8}).set_requires_grad(training);
    return peak_bytes([&] {
      const torch::AutoGradMode grad(training);
      const torch::Tensor out = attention->forward(x, mask);
      if (training) out.backward(torch::ones_like(out));
    });
  };
  for (const bool training : {false, true}) {
    const int64_t small = peak_of(4096, training), large = peak_of(8192, training);
    EXPECT_GT(small, 0);
    EXPECT_LT(static_cast<double>(large), 2.2 * static_cast<double>(small)) << spec;
  }
}

/// A diagonal recurrence as its equations stand, position by position: s_t = transition s_{t-1} +
/// gain (B u_t), y_t = factor Re(C s_t), and skip u_t once; the second C is of the reversed one.
struct Recurrence {
  torch::Tensor transition, gain;  // [P]
  torch::Tensor b, c;              // [P,D], [directions,D,P], complex
  torch::Tensor skip;              // [D]
  double factor = 1;
};
inline torch::Tensor recur(const Recurrence& r, const torch::Tensor& u) {
  const int64_t length = u.size(1);
  std::vector<torch::Tensor> rows(static_cast<size_t>(length));
  for (int64_t direction = 0; direction < r.c.size(0); ++direction) {
    torch::Tensor state = torch::zeros({u.size(0), r.b.size(0)}, torch::kComplexDouble);
    for (int64_t i = 0; i < length; ++i) {
      const int64_t t = direction == 0 ? i : length - 1 - i;
      const torch::Tensor input = torch::complex(u.select(1, t), torch::zeros_like(u.select(1, t)));
      state = r.transition * state + r.gain * input.matmul(r.b.t());
      torch::Tensor& row = rows[static_cast<size_t>(t)];
      const torch::Tensor read = r.factor * torch::real(state.matmul(r.c[direction].t()));
      row = direction == 0 ? read + r.skip * u.select(1, t) : row + read;
    }
  }
  return torch::stack(rows, 1);
}

/// Options that contradict each other are refused when they are read, before any work.
inline void expect_refused_options(const std::vector<std::string>& specs) {
  for (const std::string& text : specs) {
    const AttentionSpec spec = parse_attention(text);
    EXPECT_THROW(attention_entry(spec.name).effective_options(spec.options), UsageError) << text;
  }
}

}  // namespace lra
