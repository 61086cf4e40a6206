// Softmax attention over a given pattern with the whole matrix written out: what the variants that
// see a part of the positions are held against.
#pragma once

#include <cmath>
#include <functional>
#include <limits>

#include "tests/attention_variants/testing.h"

namespace lra {

/// Whether position i of head h sees position j.
using Pattern = std::function<bool(int64_t h, int64_t i, int64_t j)>;

inline torch::Tensor pattern_matrix(const Pattern& pattern, int64_t heads, int64_t length) {
  torch::Tensor seen = torch::zeros({heads, length, length}, torch::kBool);
  auto at = seen.accessor<bool, 3>();
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t i = 0; i < length; ++i) {
      for (int64_t j = 0; j < length; ++j) at[h][i][j] = pattern(h, i, j);
    }
  }
  return seen;
}

/// q, k, v [B,H,N,d], mask [B,N], seen [H,N,N] -> [B,H,N,d]: each real row's softmax over the real
/// positions that it sees, one row at a time over those alone; other rows are zero.
inline torch::Tensor pattern_attention(const Inputs& in, const torch::Tensor& seen) {
  const double scale = 1 / std::sqrt(static_cast<double>(in.q.size(3)));
  const torch::Tensor real = in.mask.unsqueeze(1)
                                 .unsqueeze(2)                     // [B,1,1,N]
                                 .logical_and(seen.unsqueeze(0));  // [B,H,N,N]
  const torch::Tensor row = in.mask.unsqueeze(1).unsqueeze(-1);    // [B,1,N,1]
  const torch::Tensor kept = real.logical_or(row.logical_not());
  const torch::Tensor scores =
      (scale * in.q.matmul(in.k.mT()))
          .masked_fill(kept.logical_not(), -std::numeric_limits<double>::infinity());
  return torch::softmax(scores, -1).matmul(in.v).masked_fill(row.logical_not(), 0);
}

/// Positions that are padded here and there in the first sample, in front in the second, after one
/// token in the third; the last has no token.
inline torch::Tensor scattered_mask(int64_t length) {
  const torch::Tensor at = torch::arange(length);
  return torch::stack({at.remainder(3).ne(1), at.ge(length / 2), at.lt(1), at.lt(0)});
}

/// Largest deviation of output and gradients from the formula.
inline double deviation_from_pattern(Attention& attention, int64_t length, const Pattern& pattern,
                                     const torch::Tensor& mask = {}) {
  const int64_t heads = 2;
  Inputs in = make_inputs({length, length / 2 + 1, 1, 0}, length);
  if (mask.defined()) in.mask = mask;
  const torch::Tensor seen = pattern_matrix(pattern, heads, length);
  const torch::Tensor weight = make_inputs({0, 0, 0, 0}, length, torch::kDouble, 2, 4, 8).q;
  std::vector<torch::Tensor> results[2];
  for (int formula = 0; formula < 2; ++formula) {
    Inputs leaf = in;
    for (torch::Tensor* t : {&leaf.q, &leaf.k, &leaf.v}) *t = t->detach().requires_grad_();
    const torch::Tensor out =
        formula == 1 ? pattern_attention(leaf, seen) : attend(attention, leaf);
    out.backward(weight);
    results[formula] = {out, leaf.q.grad(), leaf.k.grad(), leaf.v.grad()};
  }
  double worst = 0;
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_TRUE(finite(results[0][i]));
    worst = std::max(worst, difference(results[0][i], results[1][i]));
  }
  return worst;
}

/// What 1e30 in every padded place changes, in output and gradients.
inline double change_by_huge_padding(Attention& attention, int64_t length) {
  double worst = 0;
  for (const auto type : {torch::kDouble, torch::kFloat}) {
    attention.to(type);
    std::vector<torch::Tensor> results[2];
    for (int huge = 0; huge < 2; ++huge) {
      Inputs in = make_inputs({1, 1, 1, 1}, length, type);
      in.mask = scattered_mask(length);
      const torch::Tensor padded = in.mask.logical_not().unsqueeze(1).unsqueeze(-1);
      for (torch::Tensor* t : {&in.q, &in.k, &in.v}) {
        if (huge == 1) *t = t->masked_fill(padded, 1e30);
        t->requires_grad_();
      }
      const torch::Tensor out = attend(attention, in);
      out.sum().backward();
      results[huge] = {out, in.q.grad(), in.k.grad(), in.v.grad()};
      for (const torch::Tensor& result : results[huge]) EXPECT_TRUE(finite(result)) << type;
    }
    for (size_t i = 0; i < 4; ++i) {
      worst = std::max(worst, difference(results[1][i], results[0][i]));
    }
  }
  return worst;
}

/// How much more attend() holds at 8192 positions than at 4096, as a factor.
inline double memory_growth(const std::string& spec, bool training) {
  const auto peak = [&](int64_t n) {
    const auto attention = make(
        spec, torch::kFloat, {.width = 16, .heads = 2, .head_dim = 8, .max_length = n, .seed = 0});
    Inputs in = make_inputs({n}, n, torch::kFloat, 2, 8);
    for (torch::Tensor* t : {&in.q, &in.k, &in.v}) t->set_requires_grad(training);
    const torch::Tensor gradient = torch::ones_like(in.q);
    return static_cast<double>(peak_bytes([&] {
      torch::AutoGradMode grad(training);
      torch::Tensor out = attend(*attention, in);
      if (training) out.backward(gradient);
    }));
  };
  return peak(8192) / peak(4096);
}

}  // namespace lra
