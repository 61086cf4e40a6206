// The kernels of the landmarks' matrix and of its iterative inverse, emulated, against float64;
// gradients against differences of it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <vector>

#include "attention_variants/ops/cuda/kernels/heads/iterative_inverse.h"
#include "attention_variants/ops/cuda/kernels/heads/landmark_matrix.h"
#include "tests/attention_variants/ops/cuda/numbers.h"

namespace lra::ops::cuda {
namespace {

using emulator::Array;
using Matrix = std::vector<double>;  // [m,m]

struct InverseCase {
  int landmarks, depth, iterations;
  int matrices = 2;
  bool global_start = false, some_absent = true;
  Storage storage = Storage::f32;
};
void PrintTo(const InverseCase& c, std::ostream* to) {
  *to << fmt::format("{} of {} landmarks, d {}, {} iterations{}{}, {}", c.matrices, c.landmarks,
                     c.depth, c.iterations, c.global_start ? ", one start" : "",
                     c.some_absent ? ", some absent" : "",
                     c.storage == Storage::f32 ? "f32" : "bf16");
}

// a b + diagonal I, times factor.
Matrix product(const Matrix& a, const Matrix& b, int m, double factor = 1, double diagonal = 0) {
  Matrix out(a.size());
  for (int i = 0; i < m; ++i) {
    for (int k = 0; k < m; ++k) {
      const double left = factor * a[static_cast<size_t>(i * m + k)];
      for (int j = 0; j < m; ++j)
        out[static_cast<size_t>(i * m + j)] += left * b[static_cast<size_t>(k * m + j)];
    }
    out[static_cast<size_t>(i * m + i)] += diagonal;
  }
  return out;
}

class InverseKernels : public testing::TestWithParam<InverseCase> {
 protected:
  const InverseCase c_ = GetParam();
  const int m_ = c_.landmarks, s_ = square_size(m_);
  const int64_t rows_ = int64_t{c_.matrices} * m_, all_ = rows_ * c_.depth,
                squares_ = int64_t{c_.matrices} * s_ * s_;
  const float scale_ = 2 / std::sqrt(static_cast<float>(c_.depth));
  Numbers q_ = random_numbers(c_.storage, all_, 1, 3), k_ = random_numbers(c_.storage, all_, 2, 3);
  Array<bool> real_{rows_};
  const Array<float> grad_z_{emulator::random_values(int64_t{c_.matrices} * m_ * m_, 3)};
  Array<float> a_{squares_}, norms_{c_.matrices}, z_{(c_.iterations + 1) * squares_},
      grad_a_{squares_}, along_{c_.matrices};
  Numbers grad_q_{c_.storage, std::vector<float>(static_cast<size_t>(all_), 0.0F)},
      grad_k_ = grad_q_;

  void SetUp() override {
    for (int64_t i = 0; i < rows_; ++i) real_[i] = !c_.some_absent || i % 7 != 5;
  }

  // One head a sample.
  LandmarkMatrixParams matrix_params() {
    LandmarkMatrixParams p = {};
    p.storage = c_.storage, p.batch = c_.matrices, p.heads = 1, p.landmarks = m_;
    p.depth = c_.depth, p.scale = scale_, p.q = q_.data(), p.k = k_.data();
    p.real = c_.some_absent ? real_.data() : nullptr;
    p.a = a_.data(), p.norms = norms_.data(), p.global_start = c_.global_start;
    p.grad_a = grad_a_.data(), p.along = along_.data();
    p.grad_q = grad_q_.data(), p.grad_k = grad_k_.data();
    return p;
  }
  InverseParams inverse_params(Array<float>& scratch, int kept) {
    InverseParams p = {};
    p.matrices = c_.matrices, p.m = m_, p.iterations = c_.iterations;
    p.global_start = c_.global_start, p.a = a_.data(), p.norms = norms_.data();
    p.kept = kept, p.z = z_.data(), p.scratch = scratch.data();
    p.grad_z = grad_z_.data(), p.grad_a = grad_a_.data(), p.along = along_.data();
    return p;
  }

  void run(bool keep) {
    Array<float> none, scratch(inverse_scratch(c_.matrices, m_, true));
    launch_landmark_matrix_forward(matrix_params(), nullptr);
    launch_inverse_forward(inverse_params(none, keep ? c_.iterations + 1 : 1), nullptr);
    if (keep) {
      launch_inverse_backward(inverse_params(scratch, c_.iterations + 1), nullptr);
      launch_landmark_matrix_backward(matrix_params(), nullptr);
    }
    for (const Array<float>* array : {&a_, &norms_, &z_, &grad_a_, &along_, &scratch})
      array->check_zones();
  }

  // The matrix of q and k [matrices,m,d], from float64.
  Matrix exact_a(const std::vector<double>& q, const std::vector<double>& k, int matrix) const {
    Matrix a(static_cast<size_t>(m_) * m_);
    for (int i = 0; i < m_; ++i) {
      if (!real_[matrix * m_ + i]) continue;
      double sum = 0, *row = &a[static_cast<size_t>(i) * m_];
      for (int j = 0; j < m_; ++j) {
        if (!real_[matrix * m_ + j]) continue;
        double score = 0;
        for (int x = 0; x < c_.depth; ++x)
          score += q[static_cast<size_t>((matrix * m_ + i) * c_.depth + x)] *
                   k[static_cast<size_t>((matrix * m_ + j) * c_.depth + x)];
        sum += row[j] = std::exp(score * double{scale_});
      }
      for (int j = 0; j < m_; ++j) row[j] /= sum;
    }
    return a;
  }

  std::vector<Matrix> exact_z(const std::vector<double>& q, const std::vector<double>& k) const {
    std::vector<Matrix> all;
    std::vector<double> norms;
    for (int n = 0; n < c_.matrices; ++n) {
      all.push_back(exact_a(q, k, n));
      double norm = 0;
      for (int j = 0; j < m_; ++j) {
        double sum = 0;
        for (int i = 0; i < m_; ++i) sum += all.back()[static_cast<size_t>(i * m_ + j)];
        norm = std::max(norm, sum);
      }
      norms.push_back(norm);
    }
    for (size_t n = 0; n < all.size(); ++n) {
      const double norm = c_.global_start ? *std::ranges::max_element(norms) : norms[n];
      all[n] = iterated(all[n], norm);
    }
    return all;
  }

  Matrix iterated(const Matrix& a, double norm) const {
    Matrix z(a.size());
    for (int i = 0; i < m_; ++i) {
      for (int j = 0; j < m_; ++j)
        z[static_cast<size_t>(j * m_ + i)] = a[static_cast<size_t>(i * m_ + j)] / norm;
    }
    for (int i = 0; i < c_.iterations; ++i) {
      const Matrix az = product(a, z, m_), one = product(az, az, m_, 0, 7);
      Matrix factor = one;
      for (size_t e = 0; e < az.size(); ++e) factor[e] -= az[e];
      factor = product(az, factor, m_, -1, 15);
      factor = product(az, factor, m_, -1, 13);
      z = product(z, factor, m_, 0.25);
    }
    return z;
  }

  // The sum of Z times its gradient.
  double exact_loss(const std::vector<double>& q, const std::vector<double>& k) const {
    const std::vector<Matrix> z = exact_z(q, k);
    double sum = 0;
    for (int64_t i = 0; i < grad_z_.size(); ++i)
      sum += double{grad_z_[i]} *
             z[static_cast<size_t>(i / (m_ * m_))][static_cast<size_t>(i % (m_ * m_))];
    return sum;
  }

  void expect_exact_z(int64_t first) const {
    const std::vector<float> q = q_.values(), k = k_.values();
    const std::vector<Matrix> exact = exact_z({q.begin(), q.end()}, {k.begin(), k.end()});
    std::vector<double> padded(static_cast<size_t>(squares_));
    std::vector<float> results;
    for (int64_t i = 0; i < squares_; ++i) {
      const int64_t n = i / s_ / s_, r = i / s_ % s_, c = i % s_;
      if (r < m_ && c < m_)
        padded[static_cast<size_t>(i)] =
            exact[static_cast<size_t>(n)][static_cast<size_t>(r * m_ + c)];
      results.push_back(z_[first + i]);
    }
    expect_near(Array<float>(results), padded, Storage::f32, kUnits);
  }

  // Of every `stride`-th element of q and k.
  void expect_exact_gradients(int64_t stride) const {
    const std::vector<float> q_values = q_.values(), k_values = k_.values();
    std::vector<double> q(q_values.begin(), q_values.end()), k(k_values.begin(), k_values.end());
    std::vector<double> exact;
    std::vector<float> results;
    for (int64_t i = 0; i < 2 * all_; i += stride) {
      double& x = i < all_ ? q[static_cast<size_t>(i)] : k[static_cast<size_t>(i - all_)];
      const double old = x, step = 1e-5;
      x = old + step;
      const double above = exact_loss(q, k);
      x = old - step;
      exact.push_back((above - exact_loss(q, k)) / (2 * step));
      x = old;
      results.push_back(i < all_ ? grad_q_[i] : grad_k_[i - all_]);
    }
    expect_near(Array<float>(results), exact, c_.storage, kUnits);
  }

  // The inverse multiplies what products of float32 are off by.
  static constexpr double kUnits = 400;
};

TEST_P(InverseKernels, AreTheIteration) {
  run(false);
  expect_exact_z(0);
}

TEST_P(InverseKernels, HaveTheGradientOfTheIteration) {
  run(true);
  expect_exact_z(c_.iterations * squares_);
  expect_exact_gradients(m_ < 32 ? 1 : all_ / 8 + 1);
}

INSTANTIATE_TEST_SUITE_P(Shapes, InverseKernels,
                         testing::Values(InverseCase{1, 1, 6}, InverseCase{8, 4, 6},
                                         InverseCase{9, 40, 0},
                                         InverseCase{6, 5, 3, 3, /*global_start=*/true},
                                         InverseCase{8, 6, 6, 2, false, false, Storage::bf16}));

class SlowInverseKernels : public InverseKernels {};

TEST_P(SlowInverseKernels, HaveTheGradientOfTheIteration) {
  run(true);
  expect_exact_z(c_.iterations * squares_);
  expect_exact_gradients(all_ / 8 + 1);
}

INSTANTIATE_TEST_SUITE_P(Shapes, SlowInverseKernels,
                         testing::Values(InverseCase{33, 16, 6}, InverseCase{64, 32, 6},
                                         InverseCase{64, 128, 6, 3, true},
                                         InverseCase{128, 64, 6, 1}, InverseCase{100, 20, 4, 2}));

TEST(InverseKernelOrder, ChangesNothing) {
  const Array<float> grad_z(emulator::random_values(3 * 5 * 5, 3));
  EXPECT_TRUE(emulator::same_in_every_order([&] {
    Array<float> a(emulator::random_values(3 * 32 * 32, 1)), norms(std::vector<float>{4, 5, 6}),
        z(3 * 3 * 32 * 32), grad_a(3 * 32 * 32), along(3);
    InverseParams p = {};
    p.matrices = 3, p.m = 5, p.iterations = 2, p.kept = 3;
    p.a = a.data(), p.norms = norms.data(), p.z = z.data(), p.grad_z = grad_z.data();
    p.grad_a = grad_a.data(), p.along = along.data();
    launch_inverse_forward(p, nullptr);
    launch_inverse_backward(p, nullptr);
    std::vector<float> all(grad_a.begin(), grad_a.end());
    all.insert(all.end(), along.begin(), along.end());
    return all;
  }));
}

}  // namespace
}  // namespace lra::ops::cuda
