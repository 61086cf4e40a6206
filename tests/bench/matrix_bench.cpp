// What the fused operators multiply tiles with; and the parts of Nyström attention that are no
// attention: the iterative inverse, and the depthwise convolution over positions.
#include <algorithm>

#include "attention_variants/ops/cpu/heads.h"
#include "attention_variants/ops/cpu/kernels/gemm/gemm_bf16.h"
#include "attention_variants/ops/cpu/kernels/gemm/gemm_f32.h"
#include "attention_variants/ops/cpu/kernels/heads/iterative_inverse.h"
#include "attention_variants/ops/cpu/kernels/rows/depthwise_conv.h"
#include "attention_variants/ops/reference/depthwise_conv.h"
#include "attention_variants/ops/reference/landmark_attention.h"
#include "tests/bench/bench.h"

namespace lra {
namespace {

constexpr int64_t kIterations = 6, kTaps = 35;

ops::cpu::ConstMatrix rows_of(const torch::Tensor& x, int64_t head) {
  return ops::cpu::head_rows(x, 0, head);
}

// q kᵀ of a tile of m rows, and the products of its gradients.
template <class Multiply>
BenchWork product_work(int64_t m, ops::cpu::GemmPrecision precision, const Multiply& gemm) {
  using ops::cpu::Transposed;
  const auto q = head_vectors(m), k = head_vectors(kWidth), scores = head_vectors(m),
             grad_q = torch::empty_like(q), grad_k = torch::empty_like(k);
  const auto forward = [=](int64_t head) {
    gemm(Transposed::b, m, kWidth, kWidth, rows_of(q, head), rows_of(k, head),
         ops::cpu::mutable_head_rows(scores, 0, head));
  };
  const auto each = [=](const auto& work) {
    return [=] {
      const ops::cpu::GemmPrecisionScope scope(precision);
      ops::cpu::parallel_for_items(kHeads, 0, [&](int64_t head, ops::cpu::Arena&) { work(head); });
    };
  };
  return {.forward = each(forward),
          .training = each([=](int64_t head) {
            forward(head);
            const ops::cpu::ConstMatrix grad = rows_of(scores, head);
            gemm(Transposed::none, m, kWidth, kWidth, grad, rows_of(k, head),
                 ops::cpu::mutable_head_rows(grad_q, 0, head));
            gemm(Transposed::a, kWidth, kWidth, m, grad, rows_of(q, head),
                 ops::cpu::mutable_head_rows(grad_k, 0, head));
          }),
          .flops = 2.0 * static_cast<double>(q.numel() * kWidth),
          .least_bytes = static_cast<double>(2 * q.nbytes() + k.nbytes())};
}

// By the last backend, whether gemm() takes it on this processor or not; for reference by BLAS.
BenchWork float32_product_work(int64_t m, Kernels kernels) {
  const ops::cpu::GemmBackend backend = kernels == Kernels::reference
                                            ? ops::cpu::GemmBackend::blas
                                            : ops::cpu::gemm_backends().back();
  return product_work(m, ops::cpu::GemmPrecision::float32,
                      [=](auto... given) { gemm_f32(backend, given..., ops::cpu::GemmScale{}); });
}

// By the backend that gemm() takes on this processor; for reference in float32, of rounded
// numbers.
BenchWork bfloat16_product_work(int64_t m, Kernels kernels) {
  const ops::cpu::GemmBf16Backend backend = kernels == Kernels::reference
                                                ? ops::cpu::GemmBf16Backend::float32
                                                : ops::cpu::gemm_bf16_backend();
  return product_work(m, ops::cpu::GemmPrecision::bfloat16,
                      [=](auto... given) { gemm_bf16(backend, given..., ops::cpu::GemmScale{}); });
}

// What a head's inverse and its backward pass take.
struct InverseBenchScratch {
  InverseBenchScratch(int64_t m, ops::cpu::Arena& arena)
      : grad(arena.matrix(m, m)), iterates(m, kIterations, arena) {
    const ops::cpu::Arena::Frame frame(arena);
    ops::cpu::InverseGradients(m, arena);
  }
  ops::cpu::Matrix grad;
  ops::cpu::InverseIterates iterates;
};

// A softmax matrix [m,m] a head.
BenchWork inverse_work(int64_t m, Kernels kernels) {
  const auto a = torch::softmax(
      head_vectors(m).narrow(-1, 0, kWidth).matmul(head_vectors(m).transpose(-2, -1)) / 8, -1);
  const double flops = 8.0 * kIterations * kHeads * static_cast<double>(m * m * m);
  if (kernels == Kernels::reference)
    return differentiable([=](bool) { return ops::reference::landmark_inverse(a, kIterations); },
                          {a}, flops);
  const auto z = torch::empty_like(a), grad_a = torch::empty_like(a), grad_z = torch::randn_like(a);
  return {.forward =
              [=] {
                ops::cpu::parallel_for_items(
                    kHeads, ops::cpu::bytes_of<ops::cpu::InverseIterates>(m, 1),
                    [&](int64_t head, ops::cpu::Arena& arena) {
                      ops::cpu::inverse(m, kIterations, rows_of(a, head), std::nullopt,
                                        ops::cpu::mutable_head_rows(z, 0, head), arena);
                    });
              },
          .training =
              [=] {
                ops::cpu::parallel_for_items(
                    kHeads, ops::cpu::bytes_of<InverseBenchScratch>(m),
                    [&](int64_t head, ops::cpu::Arena& arena) {
                      const ops::cpu::Arena::Frame frame(arena);
                      const InverseBenchScratch scratch(m, arena);
                      ops::cpu::inverse_iterates(kIterations, rows_of(a, head), std::nullopt,
                                                 ops::cpu::mutable_head_rows(z, 0, head),
                                                 scratch.iterates);
                      const float* given = rows_of(grad_z, head).data;
                      std::copy(given, given + m * m, scratch.grad.data);  // is overwritten
                      ops::cpu::inverse_backward(
                          kIterations, rows_of(a, head), std::nullopt, scratch.grad,
                          ops::cpu::mutable_head_rows(grad_a, 0, head), scratch.iterates, arena);
                    });
              },
          .flops = flops,
          .least_bytes = 2.0 * static_cast<double>(a.nbytes())};
}

// All positions of a head's values and of the result's gradient as the convolution reads them.
struct ConvolutionBenchScratch {
  ConvolutionBenchScratch(int64_t n, ops::cpu::Arena& arena)
      : values(arena.matrix(n + kTaps - 1, kWidth)),
        given(arena.matrix(n + kTaps - 1, kWidth)),
        sums(kTaps, arena) {}
  ops::cpu::Matrix values, given;
  ops::cpu::ConvWeightSums sums;
};

BenchWork convolution_work(int64_t n, Kernels kernels) {
  const auto x = head_vectors(n), weight = torch::randn({kHeads, 1, kTaps, 1});
  const double flops = 2.0 * static_cast<double>(x.numel() * kTaps);
  if (kernels == Kernels::reference)
    return differentiable([=](bool) { return ops::reference::depthwise_conv(x, weight); },
                          {x, weight}, flops);
  const auto out = torch::zeros_like(x), gradient = torch::randn_like(x),
             grad_x = torch::zeros_like(x), grad_weight = torch::zeros_like(weight);
  const auto conv_weight = [=](const torch::Tensor& of, int64_t head) {
    return of.mutable_data_ptr<float>() + head * kTaps;
  };
  const auto convolve = [=](int64_t head, ops::cpu::Matrix between) {
    const ops::cpu::ConstMatrix values = ops::cpu::pad_tile(
        rows_of(x, head), n, 0, n, kWidth, kTaps, ops::cpu::KernelOrder::as_given, between);
    ops::cpu::add_convolution(conv_weight(weight, head), kTaps, ops::cpu::KernelOrder::as_given,
                              values, n, kWidth, ops::cpu::mutable_head_rows(out, 0, head));
    return values;
  };
  return {
      .forward =
          [=] {
            ops::cpu::parallel_for_items(kHeads, ops::cpu::bytes_of<ConvolutionBenchScratch>(n),
                                         [&](int64_t head, ops::cpu::Arena& arena) {
                                           convolve(head, ConvolutionBenchScratch(n, arena).values);
                                         });
          },
      .training =
          [=] {
            ops::cpu::parallel_for_items(
                kHeads, ops::cpu::bytes_of<ConvolutionBenchScratch>(n),
                [&](int64_t head, ops::cpu::Arena& arena) {
                  const auto [own_values, own_given, sums] = ConvolutionBenchScratch(n, arena);
                  const ops::cpu::ConstMatrix values = convolve(head, own_values),
                                              given = ops::cpu::pad_tile(
                                                  rows_of(gradient, head), n, 0, n, kWidth, kTaps,
                                                  ops::cpu::KernelOrder::reversed, own_given);
                  ops::cpu::add_convolution(conv_weight(weight, head), kTaps,
                                            ops::cpu::KernelOrder::reversed, given, n, kWidth,
                                            ops::cpu::mutable_head_rows(grad_x, 0, head));
                  std::fill(sums.data, sums.data + sums.count, 0.0F);
                  ops::cpu::add_conv_weight_grad(given.from(ops::cpu::pad_after(kTaps)), values,
                                                 kTaps, n, kWidth, sums.data);
                  ops::cpu::tap_gradients(sums.data, kTaps, conv_weight(grad_weight, head));
                });
          },
      .flops = flops,
      .least_bytes = static_cast<double>(2 * x.nbytes() + weight.nbytes())};
}

}  // namespace

std::vector<BenchOperator> matrix_operators() {
  return {{.name = "Product",
           .size_name = "m",
           .sizes = {32, 64, 128, 256},
           .make = float32_product_work},
          {.name = "Bfloat16Product",
           .size_name = "m",
           .sizes = {32, 64, 128, 256},
           .make = bfloat16_product_work},
          {.name = "IterativeInverse",
           .size_name = "m",
           .sizes = {32, 64, 128, 256},
           .make = inverse_work},
          {.name = "DepthwiseConvolution",
           .size_name = "N",
           .sizes = {512, 1024, 2048, 4096},
           .make = convolution_work}};
}

}  // namespace lra
