// The kernels of softmax attention with few queries or few keys, emulated, against float64.
#include "attention_variants/ops/cuda/kernels/heads/softmax_attention.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/attention_variants/ops/cuda/numbers.h"

namespace lra::ops::cuda {
namespace {

using emulator::Array;

struct SoftmaxCase {
  int queries, keys, depth;
  int batch = 3, heads = 2;
  bool query_mask = true, key_mask = true;
  Storage storage = Storage::f32;
  float logits = 1;  // about how large
};
void PrintTo(const SoftmaxCase& c, std::ostream* to) {
  *to << fmt::format("{} queries, {} keys, d {}, {} x {}{}{}, {}, logits {}", c.queries, c.keys,
                     c.depth, c.batch, c.heads, c.query_mask ? ", queries masked" : "",
                     c.key_mask ? ", keys masked" : "", c.storage == Storage::f32 ? "f32" : "bf16",
                     c.logits);
}

// Heads as a projection leaves them: [B,N,H,d].
template <class Pointer>
HeadsOf<Pointer> interleaved(Pointer data, const SoftmaxCase& c, int length) {
  return {data, int64_t{length} * c.heads * c.depth, c.depth, int64_t{c.heads} * c.depth};
}

struct Mask {
  std::vector<bool> seen;
  Array<bool> memory;
  bool given;

  Mask(const SoftmaxCase& c, bool masked, int length)
      : seen(some_mask(c.batch, length)), memory(c.batch * length), given(masked) {
    for (size_t i = 0; i < seen.size(); ++i) {
      if (!masked) seen[i] = true;
      memory[static_cast<int64_t>(i)] = seen[i];
    }
  }
  const bool* data() const { return given ? memory.data() : nullptr; }
};

// Numbers of a side, NaN where the mask leaves a row out.
Numbers rows_of(const SoftmaxCase& c, const Mask& mask, int length, uint64_t seed, float scale) {
  const int64_t row = int64_t{c.heads} * c.depth;
  Numbers all = random_numbers(c.storage, c.batch * length * row, seed, scale);
  for (int64_t i = 0; i < c.batch * length * row; ++i) {
    if (!mask.seen[static_cast<size_t>(i / row)]) all.set(i, kNan);
  }
  return all;
}

// What float64 makes of the numbers, as the kernels' results lie.
struct Exact {
  std::vector<double> out, grad_q, grad_k, grad_v;
};

class SoftmaxKernels : public testing::TestWithParam<SoftmaxCase> {
 protected:
  const SoftmaxCase c_ = GetParam();
  const int64_t row_ = int64_t{c_.heads} * c_.depth, many_q_ = c_.batch * c_.queries * row_,
                many_k_ = c_.batch * c_.keys * row_;
  const float scale_ = c_.logits / static_cast<float>(c_.depth);
  const Mask asking_{c_, c_.query_mask, c_.queries}, seen_{c_, c_.key_mask, c_.keys};
  Numbers q_ = rows_of(c_, asking_, c_.queries, 1, 3), k_ = rows_of(c_, seen_, c_.keys, 2, 3),
          v_ = rows_of(c_, seen_, c_.keys, 3, 1), grad_ = rows_of(c_, asking_, c_.queries, 4, 1);
  Numbers out_{c_.storage, many_q_}, grad_q_{c_.storage, many_q_}, grad_k_{c_.storage, many_k_},
      grad_v_{c_.storage, many_k_};
  Array<float> top_{c_.batch * c_.heads * c_.queries}, inverse_{top_.size()}, along_{top_.size()};

  SoftmaxParams params() {
    SoftmaxParams p = {};
    p.storage = c_.storage, p.batch = c_.batch, p.heads = c_.heads;
    p.queries = c_.queries, p.keys = c_.keys, p.depth = c_.depth, p.scale = scale_;
    p.q = interleaved<const void*>(q_.data(), c_, c_.queries);
    p.k = interleaved<const void*>(k_.data(), c_, c_.keys);
    p.v = interleaved<const void*>(v_.data(), c_, c_.keys);
    p.query_mask = asking_.data(), p.key_mask = seen_.data();
    p.out = interleaved<void*>(out_.data(), c_, c_.queries);
    p.top = top_.data(), p.inverse = inverse_.data(), p.along = along_.data();
    p.grad_out = interleaved<const void*>(grad_.data(), c_, c_.queries);
    p.grad_q = interleaved<void*>(grad_q_.data(), c_, c_.queries);
    p.grad_k = interleaved<void*>(grad_k_.data(), c_, c_.keys);
    p.grad_v = interleaved<void*>(grad_v_.data(), c_, c_.keys);
    return p;
  }

  // Both passes, with scratch that nothing has written.
  void run() {
    SoftmaxParams p = params();
    Array<float> forward(softmax_scratch(p, false)), backward(softmax_scratch(p, true));
    p.scratch = forward.data();
    launch_softmax_forward(p, nullptr);
    p.scratch = backward.data();
    launch_softmax_backward(p, nullptr);
    forward.check_zones();
    backward.check_zones();
    for (const Array<float>* array : {&top_, &inverse_, &along_}) array->check_zones();
  }

  int64_t at(int length, int b, int h, int n) const {
    return ((int64_t{b} * length + n) * c_.heads + h) * c_.depth;
  }
  double product(const Numbers& x, int64_t i, const Numbers& y, int64_t j) const {
    double sum = 0;
    for (int x_at = 0; x_at < c_.depth; ++x_at) sum += double{x[i + x_at]} * y[j + x_at];
    return sum;
  }
  void add(double factor, const Numbers& x, int64_t from, std::vector<double>& to,
           int64_t first) const {
    for (int i = 0; i < c_.depth; ++i)
      to[static_cast<size_t>(first + i)] += factor * double{x[from + i]};
  }

  void add_query(int b, int h, int i, Exact& exact) const {
    const int64_t qi = at(c_.queries, b, h, i);
    std::vector<double> weight(static_cast<size_t>(c_.keys)), slope = weight;
    double top = -1e300, sum = 0, along = 0;
    const auto each_key = [&](const auto& body) {
      for (int j = 0; j < c_.keys; ++j) {
        if (seen_.seen[static_cast<size_t>(b * c_.keys + j)])
          body(weight[static_cast<size_t>(j)], slope[static_cast<size_t>(j)], at(c_.keys, b, h, j));
      }
    };
    each_key([&](double& w, double&, int64_t kj) {
      w = double{scale_} * product(q_, qi, k_, kj);
      top = std::max(top, w);
    });
    each_key([&](double& w, double&, int64_t) { sum += w = std::exp(w - top); });
    each_key([&](double& w, double& s, int64_t kj) {
      w /= sum;
      s = product(grad_, qi, v_, kj);
      along += w * s;
      add(w, v_, kj, exact.out, qi);
    });
    each_key([&](double& w, double& s, int64_t kj) {
      const double of_score = w * (s - along) * double{scale_};
      add(of_score, k_, kj, exact.grad_q, qi);
      add(of_score, q_, qi, exact.grad_k, kj);
      add(w, grad_, qi, exact.grad_v, kj);
    });
  }

  Exact exact() const {
    const std::vector<double> queries(static_cast<size_t>(many_q_)),
        keys(static_cast<size_t>(many_k_));
    Exact all = {queries, queries, keys, keys};
    for (int b = 0; b < c_.batch; ++b) {
      for (int h = 0; h < c_.heads; ++h) {
        for (int i = 0; i < c_.queries; ++i) {
          if (asking_.seen[static_cast<size_t>(b * c_.queries + i)]) add_query(b, h, i, all);
        }
      }
    }
    return all;
  }

  void expect_exact() const {
    const Exact all = exact();
    // Scores are off by units of themselves, and weights by what scores are; a gradient is what
    // slopes, which are products of d numbers, leave of each other.
    const double units = 16 + 16 * double{c_.logits}, terms = 3 * double{scale_} * c_.depth;
    expect_near(out_, all.out, c_.storage, units);
    expect_near(grad_q_, all.grad_q, c_.storage, units, terms);
    expect_near(grad_k_, all.grad_k, c_.storage, units, terms);
    expect_near(grad_v_, all.grad_v, c_.storage, units);
  }
};

TEST_P(SoftmaxKernels, AreTheFormulaAndItsGradient) {
  run();
  expect_exact();
}

constexpr SoftmaxCase kFewKeys{.queries = 70, .keys = 5, .depth = 16},
    kFewQueries{.queries = 3, .keys = 300, .depth = 16}, kOne{.queries = 1, .keys = 1, .depth = 1};

INSTANTIATE_TEST_SUITE_P(
    Shapes, SoftmaxKernels,
    testing::Values(
        kOne, kFewKeys, kFewQueries,
        SoftmaxCase{.queries = 65, .keys = 33, .depth = 40, .query_mask = false},
        SoftmaxCase{
            .queries = 7, .keys = 270, .depth = 9, .key_mask = false, .storage = Storage::bf16},
        SoftmaxCase{.queries = 20, .keys = 20, .depth = 32, .logits = 3e4F}));

class SoftmaxKernelOrder : public SoftmaxKernels {};

TEST_P(SoftmaxKernelOrder, ChangesNothing) {
  EXPECT_TRUE(emulator::same_in_every_order([&] {
    run();
    std::vector<float> all;
    for (const Numbers* of : {&out_, &grad_q_, &grad_k_, &grad_v_}) {
      for (const float x : of->values()) all.push_back(x);
    }
    return all;
  }));
}

// Of both kinds, in ranges.
INSTANTIATE_TEST_SUITE_P(
    Shapes, SoftmaxKernelOrder,
    testing::Values(SoftmaxCase{.queries = 3, .keys = 260, .depth = 8, .batch = 1, .heads = 1},
                    SoftmaxCase{.queries = 260, .keys = 3, .depth = 8, .batch = 1, .heads = 1}));

class SlowSoftmaxKernels : public SoftmaxKernels {};

TEST_P(SlowSoftmaxKernels, AreTheFormulaAndItsGradient) {
  run();
  expect_exact();
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, SlowSoftmaxKernels,
    testing::Values(SoftmaxCase{.queries = 1030, .keys = 64, .depth = 32},
                    SoftmaxCase{.queries = 64, .keys = 1030, .depth = 64},
                    SoftmaxCase{.queries = 130, .keys = 256, .depth = 128},
                    SoftmaxCase{
                        .queries = 128, .keys = 600, .depth = 128, .storage = Storage::bf16},
                    SoftmaxCase{.queries = 2000, .keys = 1, .depth = 16},
                    SoftmaxCase{.queries = 600,
                                .keys = 700,
                                .depth = 24,
                                .batch = 1,
                                .heads = 1,
                                .query_mask = false,
                                .key_mask = false}));

}  // namespace
}  // namespace lra::ops::cuda
