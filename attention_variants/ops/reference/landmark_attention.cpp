#include "attention_variants/ops/reference/landmark_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "attention_variants/base/error.h"
#include "attention_variants/ops/autocast.h"
#include "attention_variants/ops/padding.h"
#include "attention_variants/ops/reference/account.h"
#include "attention_variants/ops/reference/depthwise_conv.h"
#include "attention_variants/ops/reference/iterative_inverse.h"
#include "attention_variants/ops/reference/operators.h"
#include "attention_variants/ops/reference/softmax_attention.h"

namespace lra::ops::reference {
namespace {

// Means over m segments of positions: x [B,H,N,d] -> [B,H,m,d]. The first m - N mod m segments have
// ⌊N/m⌋ positions, the others one more.
torch::Tensor segment_means(const torch::Tensor& x, int64_t m) {
  const int64_t size = x.size(2) / m, longer = x.size(2) % m, shorter = m - longer;
  const torch::Tensor head = x.narrow(2, 0, shorter * size).unflatten(2, {shorter, size}).mean(3);
  if (longer == 0) return head;
  const torch::Tensor tail =
      x.narrow(2, shorter * size, longer * (size + 1)).unflatten(2, {longer, size + 1}).mean(3);
  return torch::cat({head, tail}, 2);
}

// Means over the overlapping segments ⌊iN/m⌋..⌈(i+1)N/m⌉.
torch::Tensor adaptive_means(const torch::Tensor& x, int64_t m) {
  return torch::adaptive_avg_pool2d(x, {m, x.size(3)});
}

Landmarks mean_landmarks(const torch::Tensor& q, const torch::Tensor& k,
                         const torch::Tensor& tokens, const LandmarkMatrixOptions& options) {
  const int64_t m = options.count;
  const auto means = options.kind == LandmarkKind::segment_means ? segment_means : adaptive_means;
  Landmarks landmarks{means(q, m), means(k, m), {}};
  if (!tokens.defined()) return landmarks;
  // The other rows are zero, so the mean over the tokens is the mean over all, by the share that
  // they are.
  const torch::Tensor share =
      means(tokens.to(wide_type(q.scalar_type())).unsqueeze(1).unsqueeze(-1), m);  // [B,1,m,1]
  landmarks.real = share.squeeze(1).squeeze(-1).gt(0);
  const torch::Tensor divisor = share.masked_fill(share.eq(0), 1);
  landmarks.q = (landmarks.q / divisor).to(q.scalar_type());
  landmarks.k = (landmarks.k / divisor).to(k.scalar_type());
  return landmarks;
}

// Landmarks that are tokens: evenly spaced or drawn without repetition, among each sample's own
// (tokens [B,N]), so that a sample with L of them has min(m, L) landmarks whatever the padding.
Landmarks picked_landmarks(const torch::Tensor& q, const torch::Tensor& k,
                           const torch::Tensor& tokens, const LandmarkMatrixOptions& options) {
  const int64_t m = options.count, length = q.size(2);
  const torch::Tensor count = tokens.sum(1, /*keepdim=*/true);  // L [B,1]
  torch::Tensor order;                                          // [B,N]: tokens first
  torch::Tensor rank;                                           // [B,m] into order
  torch::Tensor real;                                           // [B,m]
  const torch::Tensor steps = torch::arange(m, count.options());
  if (options.kind == LandmarkKind::strided) {
    order = torch::argsort(tokens.to(torch::kInt), /*stable=*/true, /*dim=*/1, /*descending=*/true);
    rank = (steps * count).div(m, "floor");  // [B,m]
    // With L < m some ranks repeat; one of each stays.
    real = torch::cat({count.gt(0), rank.narrow(1, 1, m - 1).ne(rank.narrow(1, 0, m - 1))}, 1);
  } else {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(options.seed);
    const torch::Tensor draw = torch::rand({length}, generator, torch::kDouble).to(tokens.device());
    order = torch::argsort(draw.masked_fill(tokens.logical_not(), 2), /*stable=*/true, /*dim=*/1,
                           /*descending=*/false);
    rank = steps.expand({tokens.size(0), m});
    real = rank.lt(count);
  }
  const torch::Tensor index = order.gather(1, rank);  // [B,m]
  const auto pick = [&](const torch::Tensor& x) {
    return x.gather(2, index.unsqueeze(1).unsqueeze(-1).expand({-1, x.size(1), -1, x.size(3)}));
  };
  return {pick(q), pick(k), real};
}

}  // namespace

Landmarks make_landmarks(const torch::Tensor& q, const torch::Tensor& k,
                         const torch::Tensor& tokens, const LandmarkMatrixOptions& options) {
  if (options.kind == LandmarkKind::segment_means || options.kind == LandmarkKind::adaptive_pool)
    return mean_landmarks(q, k, tokens, options);
  const torch::Tensor all =
      tokens.defined() ? tokens
                       : torch::ones({q.size(0), q.size(2)}, q.options().dtype(torch::kBool));
  return picked_landmarks(q, k, all, options);
}

torch::Tensor landmark_matrix(const Landmarks& landmarks) {
  const NoAutocast guard;
  const auto type = wide_type(landmarks.q.scalar_type());
  const double scale = 1 / std::sqrt(static_cast<double>(landmarks.q.size(-1)));
  const torch::Tensor scores =
      torch::matmul(landmarks.q.to(type) * scale, landmarks.k.to(type).transpose(-2, -1));
  if (!landmarks.real.defined()) return torch::softmax(scores, -1);
  // A landmark that is not real gets a zero row and a zero column. [[A,0],[0,0]]⁺ = [[A⁺,0],[0,0]],
  // in the iteration too, so the real ones see what they would see alone. The lowest finite number
  // and not -inf: a row without real keys stays finite, and its gradient too, until it is zeroed.
  const torch::Tensor absent = landmarks.real.logical_not().unsqueeze(1);  // [B,1,m]
  const double lowest = type == torch::kDouble ? std::numeric_limits<double>::lowest()
                                               : std::numeric_limits<float>::lowest();
  const torch::Tensor a = torch::softmax(scores.masked_fill(absent.unsqueeze(2), lowest), -1);
  return a.masked_fill(absent.unsqueeze(2).logical_or(absent.unsqueeze(3)), 0);
}

torch::Tensor landmark_inverse(const torch::Tensor& a, int64_t iterations, InverseStart start) {
  const NoAutocast guard;
  torch::Tensor norm = a.sum(-2).amax(-1);  // ‖A‖₁ [B,H]; ‖A‖∞ of a softmax is 1
  const bool of_all = start == InverseStart::global && norm.numel() > 0;
  norm = of_all ? norm.max() : norm.unsqueeze(-1).unsqueeze(-1);
  // It is at least 1 but for a sample with no landmark at all, whose A is zero.
  return iterative_inverse(a, a.transpose(-2, -1) / norm.clamp_min(0.5), iterations);
}

torch::Tensor exact_landmark_inverse(const torch::Tensor& a) {
  const NoAutocast guard;
  return at::linalg_pinv(a);
}

torch::Tensor landmark_product(const torch::Tensor& q, const torch::Tensor& k,
                               const torch::Tensor& v, const torch::Tensor& mask,
                               const Landmarks& landmarks, const torch::Tensor& z) {
  // Rows of B at landmarks that are not real are harmless: their columns of Z are zero.
  const torch::Tensor bv = softmax_attention(landmarks.q, k, v, mask);  // [B,H,m,e]
  torch::Tensor x;                                                      // Z (B V) [B,H,m,e]
  {
    const NoAutocast guard;
    x = torch::matmul(z, bv.to(z.scalar_type())).to(q.scalar_type());
  }
  return softmax_attention(q, landmarks.k, x, landmarks.real);
}

torch::Tensor run(const LandmarkCall& call) {
  const LandmarkOptions& options = call.options;
  const auto read = [&](const torch::Tensor& x) {
    return options.padding == LandmarkPadding::ignored ? x : zero_padding(x, call.mask);
  };
  const torch::Tensor v = read(call.v);
  torch::Tensor out;
  {  // what it holds ends before the convolution
    const torch::Tensor q = read(call.q), k = read(call.k);
    const Landmarks landmarks = make_landmarks(
        q, k, options.padding == LandmarkPadding::masked ? call.mask : torch::Tensor(),
        {.count = options.landmarks, .kind = options.kind, .seed = options.seed});
    const torch::Tensor a = landmark_matrix(landmarks);  // [B,H,m,m]
    const torch::Tensor z = options.exact_inverse
                                ? exact_landmark_inverse(a)
                                : landmark_inverse(a, options.iterations, options.start);
    out = landmark_product(q, k, v, call.mask, landmarks, z).to(call.q.scalar_type());
  }
  const torch::Tensor& taps = call.conv_weight;
  if (taps.size(1) > 0) out = out + depthwise_conv(v, taps.view({taps.size(0), 1, -1, 1}));
  return zero_padded_rows(out, call.mask);
}

int64_t bytes(const LandmarkShape& shape) {
  const int64_t rows = shape.batch * shape.heads, d = shape.head_dim, m = shape.options.landmarks,
                vector = rows * shape.length * d * shape.element_size,  // one [B,H,N,d]
      zeroed = shape.options.padding == LandmarkPadding::ignored ? 0 : 1;
  // Both landmarks, B V and Z B V; A and Z.
  const int64_t inner = rows * (4 * m * d + 2 * m * m) * shape.element_size;
  const int64_t product = (3 * zeroed + 1) * vector + inner +
                          fused_attention_bytes(rows, shape.length, m, d, shape.element_size);
  // Both landmarks, and of iterative_inverse() four multiples of I, A and seven of its size.
  const int64_t inverse =
      shape.options.exact_inverse
          ? 0
          : 3 * zeroed * vector + (rows * (2 * m * d + 8 * m * m) + 4 * m * m) * shape.element_size;
  const int64_t attention = std::max(product, inverse);
  if (shape.conv_kernel == 0) return attention;
  // The attention's output stands while the convolution runs.
  return std::max(attention, (zeroed + 1) * vector +
                                 depthwise_conv_bytes(shape.batch, shape.heads, shape.length, d,
                                                      shape.conv_kernel, shape.element_size));
}

}  // namespace lra::ops::reference
