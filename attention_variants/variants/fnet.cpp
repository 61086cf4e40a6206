// FNet: out = Re(F_N X F_D), the real part of the discrete Fourier transform over the positions and
// over the width of the model; (F_n)_jk = exp(-2πi jk / n), not normalised. No parameters, no
// queries, keys or values. The transform is over all N positions, padded ones as zeros, so the
// result depends on the length a sample is padded to.
//
// Lee-Thorp et al., "FNet: Mixing Tokens with Fourier Transforms", NAACL 2022, section 3.2.
// Cost: O(N D log(N D)) time for any N, prime ones too; memory O(N D).
#include <fmt/ranges.h>

#include <cmath>

#include "attention_variants/registry.h"

namespace lra {
namespace {

struct FNetOptions {
  template <class Fields>
  void fields(Fields&) {}
};

// Re of the transform of x [B,N,D] over its last two dimensions. The transform Y of a real x has
// Y[-n,-k] = conj(Y[n,k]) (indices modulo N and D): half of its columns are computed, the others'
// real parts are theirs.
torch::Tensor real_transform(const torch::Tensor& x) {
  const int64_t width = x.size(2), mirrored = width - width / 2 - 1;
  const torch::Tensor half = torch::real(torch::fft::rfft2(x));  // [B,N,D/2+1]
  // flip sends row n to N-1-n, roll from there to N-n, and row 0 back to itself.
  const torch::Tensor rest = half.narrow(2, 1, mirrored).flip({1, 2}).roll(1, 1);
  return torch::cat({half, rest}, 2);
}

class FNetAttention : public Attention {
 public:
  FNetAttention(const AttentionContext& context, const FNetOptions& options)
      : context_(context), options_(options) {}

  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& mask) override {
    check_input(x, mask);
    const torch::Tensor padded = mask.logical_not().unsqueeze(-1);  // [B,N,1]
    // LibTorch transforms no bfloat16, and float16 on GPUs alone, at powers of two.
    const auto type = x.scalar_type() == torch::kDouble ? torch::kDouble : torch::kFloat;
    const torch::Tensor mixed = real_transform(x.masked_fill(padded, 0).to(type));
    return mixed.masked_fill(padded, 0).to(x.scalar_type());
  }

  bool capturable() const override { return true; }

  json options() const override { return write_fields(options_); }

  /// Of one forward(), since there is no attend(): the customary 5 n log₂ n of a complex transform
  /// of length n, half of it where the input is real.
  int64_t flops(int64_t batch, int64_t length) const override {
    const auto transform = [](int64_t n) {
      return 5 * static_cast<double>(n) * std::log2(static_cast<double>(n));
    };
    const int64_t columns = context_.width / 2 + 1;
    return batch * std::llround(static_cast<double>(length) * transform(context_.width) / 2 +
                                static_cast<double>(columns) * transform(length));
  }

 private:
  void check_input(const torch::Tensor& x, const torch::Tensor& mask) const {
    if (x.dim() != 3 || x.size(1) < 1 || x.size(2) != context_.width || !x.is_floating_point()) {
      throw Error(
          fmt::format("x should be [B,N,{}] of a floating-point type with N of at least 1, "
                      "not [{}] {}",
                      context_.width, fmt::join(x.sizes(), ","), c10::toString(x.scalar_type())));
    }
    if (mask.dim() != 2 || mask.size(0) != x.size(0) || mask.size(1) != x.size(1) ||
        mask.scalar_type() != torch::kBool) {
      throw Error(fmt::format("mask should be [{},{}] Bool (true = a token), not [{}] {}",
                              x.size(0), x.size(1), fmt::join(mask.sizes(), ","),
                              c10::toString(mask.scalar_type())));
    }
  }

  const AttentionContext context_;
  const FNetOptions options_;
};

[[maybe_unused]] const bool fnet_registered = register_attention<FNetAttention, FNetOptions>({
    .name = "fnet",
    .title = "FNet",
    .paper = "Lee-Thorp et al., NAACL 2022",
    .complexity = "O(N log N) time; memory O(N)",
    .softmax = Softmax::different,
    .linear = true,
    .peer = "the formula, in float64",
});

}  // namespace
}  // namespace lra
