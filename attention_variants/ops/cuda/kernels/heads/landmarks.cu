// K4. Means of segments of positions (ops/landmark_attention.h; Xiong et al., AAAI 2021).
//
// Traffic: forward, q and k [B,H,N,d] in and their means [B,H,m,d] out, each once (rows that two
// overlapping segments share twice). Backward, the means' gradients in, and the gradients of q and
// k in and out. Work: forward, a warp has a segment of one head of q or of k, and its lanes the
// columns; backward, a warp has a few positions, and adds to each the few segments that have it in
// their order.
#include "attention_variants/ops/cuda/kernels/heads/landmarks.h"

#include "attention_variants/ops/cuda/kernels/heads/width.h"

namespace lra::ops::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kPositions = 4;  // of a warp, backward

/// Whole numbers [begin, end).
struct Range {
  int begin, end;
};

// N positions in m segments.
class SegmentBounds {
 public:
  explicit __device__ SegmentBounds(const LandmarksParams& p)
      : overlapping_(p.segments == Segments::overlapping),
        n_(p.length),
        m_(p.landmarks),
        size_(n_ / m_),
        shorter_(m_ - n_ % m_) {}

  __device__ __forceinline__ Range positions(int i) const {
    if (overlapping_)
      return {static_cast<int>(int64_t{i} * n_ / m_),
              static_cast<int>(ceil_div<int64_t>(int64_t{i + 1} * n_, m_))};
    const int begin = i * size_ + (i > shorter_ ? i - shorter_ : 0);
    return {begin, begin + size_ + (i >= shorter_ ? 1 : 0)};
  }
  // Those that have position n.
  __device__ __forceinline__ Range segments(int n) const {
    if (overlapping_)
      return {static_cast<int>(int64_t{n} * m_ / n_),
              static_cast<int>(ceil_div<int64_t>(int64_t{n + 1} * m_, n_))};
    const int before = shorter_ * size_,
              i = n < before ? n / size_ : shorter_ + (n - before) / (size_ + 1);
    return {i, i + 1};
  }

 private:
  const bool overlapping_;
  const int n_, m_, size_, shorter_;
};

// What a warp has: an item of one head, of q or of k.
struct HeadItem {
  int item, h, b;
  bool of_k;
  bool none;  // past the last

  __device__ HeadItem(const LandmarksParams& p, int items)
      : item(static_cast<int>(blockIdx.x * kWarps + threadIdx.y)),
        h(static_cast<int>(blockIdx.y) % p.heads),
        b(static_cast<int>(blockIdx.z) % p.batch),
        of_k(static_cast<int>(blockIdx.z) >= p.batch),
        none(item >= items) {}
};

__device__ __forceinline__ int64_t row_offset(int64_t batch, int64_t head, int64_t row,
                                              const HeadItem& of, int n) {
  return of.b * batch + of.h * head + n * row;
}

// Of means [B,H,m,d], the row of segment i.
__device__ __forceinline__ int64_t mean_offset(const LandmarksParams& p, const HeadItem& of,
                                               int i) {
  return ((int64_t{of.b} * p.heads + of.h) * p.landmarks + i) * p.depth;
}

template <class T>
__global__ void __launch_bounds__(kWarps* kWarp) landmarks_forward(LandmarksParams p) {
  const HeadItem of(p, p.landmarks);
  if (of.none) return;
  const Range range = SegmentBounds(p).positions(of.item);
  const bool* mask = p.mask == nullptr ? nullptr : p.mask + int64_t{of.b} * p.length;
  int tokens = 0;
  for (int n = range.begin; n < range.end; ++n) tokens += mask == nullptr || mask[n] ? 1 : 0;
  const int divisor = p.over == SegmentMeanOver::tokens ? tokens : range.end - range.begin;
  const float factor = tokens == 0 ? 0.0F : 1.0F / static_cast<float>(divisor);
  const Heads& x = of.of_k ? p.k : p.q;
  const T* from = static_cast<const T*>(x.data) + row_offset(x.batch, x.head, x.row, of, 0);
  T* to = static_cast<T*>(of.of_k ? p.k_means : p.q_means) + mean_offset(p, of, of.item);
  for (int c = threadIdx.x; c < p.depth; c += kWarp) {
    float sum = 0;
#pragma unroll 4
    for (int n = range.begin; n < range.end; ++n) {
      if (mask == nullptr || mask[n]) sum += to_float(from[n * x.row + c]);
    }
    to[c] = from_float<T>(sum * factor);
  }
  if (of.of_k || of.h != 0 || threadIdx.x != 0) return;
  p.factors[int64_t{of.b} * p.landmarks + of.item] = factor;
  if (p.real != nullptr) p.real[int64_t{of.b} * p.landmarks + of.item] = factor != 0;
}

template <class T>
__global__ void __launch_bounds__(kWarps* kWarp) landmarks_backward(LandmarksParams p) {
  const HeadItem of(p, ceil_div(p.length, kPositions));
  if (of.none) return;
  const bool* mask = p.mask == nullptr ? nullptr : p.mask + int64_t{of.b} * p.length;
  const SegmentBounds bounds(p);
  const MutableHeads& grad = of.of_k ? p.grad_k : p.grad_q;
  T* const to = static_cast<T*>(grad.data) + row_offset(grad.batch, grad.head, grad.row, of, 0);
  const T* from =
      static_cast<const T*>(of.of_k ? p.grad_k_means : p.grad_q_means) + mean_offset(p, of, 0);
  const float* factors = p.factors + int64_t{of.b} * p.landmarks;
  for (int c = threadIdx.x; c < p.depth; c += kWarp) {
#pragma unroll
    for (int i = 0; i < kPositions; ++i) {
      const int n = of.item * kPositions + i;
      if (n >= p.length || (mask != nullptr && !mask[n])) continue;
      const Range range = bounds.segments(n);
      T& sum = to[n * grad.row + c];
      float x = to_float(sum);
      for (int s = range.begin; s < range.end; ++s)
        x = fmaf(factors[s], to_float(from[int64_t{s} * p.depth + c]), x);
      sum = from_float<T>(x);
    }
  }
}

Dim3 warps_for(const LandmarksParams& p, int items) {
  return grid_of(ceil_div(items, kWarps), p.heads, 2 * int64_t{p.batch});
}

}  // namespace

void launch_landmarks_forward(const LandmarksParams& p, Stream stream) {
  auto* kernel = p.storage == Storage::f32 ? landmarks_forward<float> : landmarks_forward<bf16>;
  launch(kernel, warps_for(p, p.landmarks), {kWarp, kWarps}, 0, stream, p);
}

void launch_landmarks_backward(const LandmarksParams& p, Stream stream) {
  auto* kernel = p.storage == Storage::f32 ? landmarks_backward<float> : landmarks_backward<bf16>;
  launch(kernel, warps_for(p, ceil_div(p.length, kPositions)), {kWarp, kWarps}, 0, stream, p);
}

}  // namespace lra::ops::cuda
