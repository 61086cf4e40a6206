#include "attention_variants/ops/cpu/kernels/rows/gates.h"

#include "attention_variants/ops/cpu/kernels/rows/vector_math.h"

namespace lra::ops::cpu::LRA_ISA {
namespace {

LRA_INLINE float sigmoid(float x) { return 1.0F / (1.0F + exp(-x)); }

// GELU(x) = x times this, and what it is differentiated.
struct Share {
  float value, slope;
};
template <Gelu form>
LRA_INLINE Share share_of(float x) {
  if constexpr (form == Gelu::exact) {
    const Normal normal = normal_at(x);
    return {normal.below, 0.39894228F * normal.bell};
  } else {
    // (1 + tanh u) / 2 = σ(2 u), u = √(2/π) (x + 0.044715 x³)
    const float square = x * x, value = sigmoid(1.59576912F * x * (1.0F + 0.044715F * square));
    return {value, value * (1.0F - value) * 1.59576912F * (1.0F + 0.134145F * square)};
  }
}

template <class Body>
LRA_INLINE void with_form(Gelu form, const Body& body) {
  if (form == Gelu::exact)
    body([](float x) __attribute__((always_inline)) { return share_of<Gelu::exact>(x); });
  else
    body([](float x) __attribute__((always_inline)) { return share_of<Gelu::tanh>(x); });
}

}  // namespace

void gelu_of(Gelu form, const float* x, int64_t count, float* to) {
  with_form(
      form, [&](const auto& share) __attribute__((always_inline)) {
#pragma omp simd
        for (int64_t i = 0; i < count; ++i) to[i] = x[i] * share(x[i]).value;
      });
}

void gelu_backward(Gelu form, const float* x, const float* grad, int64_t count, float* to) {
  with_form(
      form, [&](const auto& share) __attribute__((always_inline)) {
#pragma omp simd
        for (int64_t i = 0; i < count; ++i) {
          const Share s = share(x[i]);
          to[i] = grad[i] * (s.value + x[i] * s.slope);
        }
      });
}

void gate_rows(ConstMatrix value, ConstMatrix gate, int64_t rows, int64_t width, Matrix to) {
  for (int64_t r = 0; r < rows; ++r) {
    const float *v = value[r], *g = gate[r];
    float* const out = to[r];
#pragma omp simd
    for (int64_t c = 0; c < width; ++c) out[c] = v[c] * sigmoid(g[c]);
  }
}

void gate_rows_backward(ConstMatrix value, ConstMatrix gate, ConstMatrix grad, int64_t rows,
                        int64_t width, Matrix grad_value, Matrix grad_gate) {
  for (int64_t r = 0; r < rows; ++r) {
    const float *v = value[r], *g = gate[r], *of = grad[r];
    float *const to_value = grad_value[r], *const to_gate = grad_gate[r];
#pragma omp simd
    for (int64_t c = 0; c < width; ++c) {
      const float share = sigmoid(g[c]), through = of[c] * share;
      to_value[c] = through;
      to_gate[c] = through * v[c] * (1.0F - share);
    }
  }
}

}  // namespace lra::ops::cpu::LRA_ISA
