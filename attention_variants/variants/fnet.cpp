// FNet: out = Re(F_N X F_D), the real part of the discrete Fourier transform over the positions and
// over the width of the model; (F_n)_jk = exp(-2πi jk / n), not normalised. No parameters, no
// queries, keys or values. The transform is over all N positions, padded ones as zeros, so the
// result depends on the length a sample is padded to.
//
// Lee-Thorp et al., "FNet: Mixing Tokens with Fourier Transforms", NAACL 2022, section 3.2.
// Cost: O(N D log(N D)) time for any N, prime ones too; memory O(N D).
#include <cmath>

#include "attention_variants/registry.h"
#include "attention_variants/sequence_mixer.h"

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

class FNetAttention : public SequenceMixer {
 public:
  FNetAttention(const AttentionContext& context, const FNetOptions& options)
      : SequenceMixer(context), options_(options) {}

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

 protected:
  // LibTorch transforms no bfloat16, and float16 on GPUs alone, at powers of two.
  GatedRows mix(const torch::Tensor& u, const torch::Tensor&) override {
    return {.y = real_transform(u)};
  }

 private:
  const FNetOptions options_;
};

[[maybe_unused]] const bool fnet_registered = register_attention<FNetAttention, FNetOptions>({
    .name = "fnet",
    .title = "FNet",
    .paper = "Lee-Thorp et al., NAACL 2022",
    .complexity = "O(N log N) time; memory O(N)",
    .softmax = Softmax::different,
    .linear = true,
    .why_unrotated = "it has no queries and keys",
    .peer = "the formula, in float64",
});

}  // namespace
}  // namespace lra
