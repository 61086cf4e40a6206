// A = softmax(s Q̃ K̃ᵀ) [m,m] of m <= 128 landmarks of a head [m,d], and ‖A‖₁, the largest sum of a
// column (ops/reference/landmark_attention.h; Xiong et al., AAAI 2021).
//
// Traffic: landmarks once, A and backward its gradient once. Work: a block a head, of whose matrix
// each warp has 16 rows; products by tensor cores, as exact as float32.
#include "attention_variants/ops/cuda/kernels/heads/landmark_matrix.h"

#include "attention_variants/ops/cuda/kernels/heads/square_product.h"
#include "attention_variants/ops/cuda/kernels/rows/reduce.h"

namespace lra::ops::cuda {
namespace {

// Two matrices and a row.
template <int size>
constexpr size_t kSharedBytes =
    shared_bytes<float>(2 * SquareTiles<size>::kFloats) + shared_bytes<float>(size);

// A block's head.
template <class T, int size>
struct Landmarks {
  const LandmarkMatrixParams& p;
  const bool* real;

  __device__ explicit Landmarks(const LandmarkMatrixParams& params)
      : p(params),
        real(p.real == nullptr
                 ? nullptr
                 : p.real + static_cast<int64_t>(blockIdx.x) / p.heads * p.landmarks) {}

  __device__ __forceinline__ bool there(int i) const {
    return i < p.landmarks && (real == nullptr || real[i]);
  }
  __device__ __forceinline__ int64_t row(int i) const {
    return (static_cast<int64_t>(blockIdx.x) * p.landmarks + i) * p.depth;
  }
  /// to = columns [first, first + size) of landmarks, zero beyond them.
  __device__ __forceinline__ void load(const void* from, int first, const Square& to) const {
    each_element<size>([&](int r, int c) {
      const bool inside = there(r) && first + c < p.depth;
      to(r, c) = inside ? to_float(static_cast<const T*>(from)[row(r) + first + c]) : 0.0F;
    });
  }
  /// Columns from `first` on that a product goes over.
  __device__ __forceinline__ int columns(int first) const {
    const int left = p.depth - first;
    return left < size ? (left + 7) / 8 * 8 : size;
  }
};

// Each row of scores becomes its softmax over the landmarks that are there, zero where none is.
template <class T, int size>
__device__ __forceinline__ void softmax_rows(const Landmarks<T, size>& landmarks,
                                             const Square& scores) {
  constexpr int kOf = size / 32;  // numbers of a row that a lane has
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int r = static_cast<int>(threadIdx.x) / 32; r < size;
       r += SquareTiles<size>::kThreads / 32) {
    float weight[kOf], top = -INFINITY, sum = 0;
#pragma unroll
    for (int i = 0; i < kOf; ++i) {
      weight[i] = landmarks.there(32 * i + lane) ? scores(r, 32 * i + lane) : -INFINITY;
      top = fmaxf(top, weight[i]);
    }
    top = warp_max(top);
    const bool some = landmarks.there(r);
#pragma unroll
    for (int i = 0; i < kOf; ++i) {
      weight[i] = some ? expf(weight[i] - top) : 0.0F;
      sum += weight[i];
    }
    sum = warp_sum(sum);
#pragma unroll
    for (int i = 0; i < kOf; ++i) scores(r, 32 * i + lane) = some ? weight[i] / sum : 0.0F;
  }
}

// sums [size] of the columns; the largest.
template <int size>
__device__ __forceinline__ float column_sums(const Square& a, float* sums) {
  const int c = static_cast<int>(threadIdx.x);
  if (c < size) {
    float sum = 0;
#pragma unroll 8
    for (int r = 0; r < size; ++r) sum += a(r, c);
    sums[c] = sum;
  }
  __syncthreads();
  float largest = 0;
  for (int i = static_cast<int>(threadIdx.x) % kWarp; i < size; i += kWarp)
    largest = fmaxf(largest, sums[i]);
  return warp_max(largest);
}

template <class T, int size>
__global__ void __launch_bounds__(SquareTiles<size>::kThreads, 1)
    landmark_matrix_forward(LandmarkMatrixParams p) {
  Shared shared = block_shared();
  float* const matrices = shared.take<float>(2 * SquareTiles<size>::kFloats);
  float* const sums = shared.take<float>(size);
  const Square q = shared_square<size>(matrices, 0), k = shared_square<size>(matrices, 1);
  const Landmarks<T, size> landmarks(p);
  SquarePart<size> scores;
  for (int first = 0; first < p.depth; first += size) {
    __syncthreads();
    landmarks.load(p.q, first, q);
    landmarks.load(p.k, first, k);
    __syncthreads();
    scores.add_product(q.view(), k.transposed(), landmarks.columns(first));
  }
  scores.write(q, p.scale);
  softmax_rows(landmarks, q);
  __syncthreads();
  const Square a = global_square<size>(p.a, blockIdx.x);
  each_element<size>([&](int r, int c) { a(r, c) = q(r, c); });
  const float norm = column_sums<size>(q, sums);
  if (threadIdx.x == 0) p.norms[blockIdx.x] = norm;
}

// The gradient of ‖A‖₁ goes to the columns of that sum, shared where there are several.
struct NormGradient {
  float norm, of_each;  // what such a column's elements get

  // Of the block's matrix, `ties` of whose columns have its norm.
  __device__ NormGradient(const LandmarkMatrixParams& p, float ties)
      : norm(p.norms[blockIdx.x]), of_each(0) {
    float along = p.along[blockIdx.x];
    int sharing = 1;
    if (p.global_start) {
      along = 0;
      sharing = 0;
      const float own = norm;
      for (int i = 0; i < p.batch * p.heads; ++i) norm = fmaxf(norm, p.norms[i]);
      for (int i = 0; i < p.batch * p.heads; ++i) {
        along += p.along[i];
        sharing += p.norms[i] == norm ? 1 : 0;
      }
      if (own < norm) return;
    }
    if (norm >= kLeastNorm) of_each = -along / (norm * norm) / ties / static_cast<float>(sharing);
  }
};

// slopes = the gradient of the scores' products.
template <class T, int size>
__device__ __forceinline__ void score_gradient(const LandmarkMatrixParams& p, const Square& a,
                                               const float* sums, float of_norm, float norm,
                                               const Square& slopes) {
  constexpr int kOf = size / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const Square grad = global_square<size>(const_cast<float*>(p.grad_a), blockIdx.x);
  for (int r = static_cast<int>(threadIdx.x) / 32; r < size;
       r += SquareTiles<size>::kThreads / 32) {
    float weight[kOf], slope[kOf], dot = 0;
#pragma unroll
    for (int i = 0; i < kOf; ++i) {
      const int c = 32 * i + lane;
      weight[i] = a(r, c);
      slope[i] = grad(r, c) + (sums[c] == norm ? of_norm : 0.0F);
      dot = fmaf(weight[i], slope[i], dot);
    }
    dot = warp_sum(dot);
#pragma unroll
    for (int i = 0; i < kOf; ++i) slopes(r, 32 * i + lane) = weight[i] * (slope[i] - dot) * p.scale;
  }
}

// Adds `by` times the other landmarks to the gradient of these.
template <class T, int size>
__device__ __forceinline__ void add_gradient(const Landmarks<T, size>& landmarks,
                                             const TileView& by, const void* others,
                                             const Square& tile, void* grad) {
  const LandmarkMatrixParams& p = landmarks.p;
  for (int first = 0; first < p.depth; first += size) {
    __syncthreads();
    landmarks.load(others, first, tile);
    __syncthreads();
    SquarePart<size> sum;
    sum.add_product(by, tile.view());
    sum.write(tile, 1);
    each_element<size>([&](int r, int c) {
      if (r >= p.landmarks || first + c >= p.depth) return;
      T& to = static_cast<T*>(grad)[landmarks.row(r) + first + c];
      to = from_float<T>(to_float(to) + tile(r, c));
    });
  }
}

template <class T, int size>
__global__ void __launch_bounds__(SquareTiles<size>::kThreads, 1)
    landmark_matrix_backward(LandmarkMatrixParams p) {
  Shared shared = block_shared();
  float* const matrices = shared.take<float>(2 * SquareTiles<size>::kFloats);
  float* const sums = shared.take<float>(size);
  const Square tile = shared_square<size>(matrices, 0), slopes = shared_square<size>(matrices, 1),
               a = global_square<size>(p.a, blockIdx.x);
  const Landmarks<T, size> landmarks(p);
  each_element<size>([&](int r, int c) { tile(r, c) = a(r, c); });
  __syncthreads();
  const float own = column_sums<size>(tile, sums);
  float ties = 0;
  for (int c = static_cast<int>(threadIdx.x) % kWarp; c < size; c += kWarp)
    ties += sums[c] == own ? 1.0F : 0.0F;
  ties = warp_sum(ties);
  score_gradient<T, size>(p, tile, sums, NormGradient(p, ties).of_each, own, slopes);
  add_gradient(landmarks, slopes.view(), p.k, tile, p.grad_q);
  add_gradient(landmarks, slopes.transposed(), p.q, tile, p.grad_k);
}

Dim3 heads_grid(const LandmarkMatrixParams& p) {
  return {static_cast<unsigned>(p.batch * p.heads)};
}

template <class T>
void launch_forward(const LandmarkMatrixParams& p, Stream stream) {
  with_square_size(p.landmarks, [&](auto size) {
    constexpr int kSize = decltype(size)::value;
    launch(landmark_matrix_forward<T, kSize>, heads_grid(p), {SquareTiles<kSize>::kThreads},
           kSharedBytes<kSize>, stream, p);
  });
}

template <class T>
void launch_backward(const LandmarkMatrixParams& p, Stream stream) {
  with_square_size(p.landmarks, [&](auto size) {
    constexpr int kSize = decltype(size)::value;
    launch(landmark_matrix_backward<T, kSize>, heads_grid(p), {SquareTiles<kSize>::kThreads},
           kSharedBytes<kSize>, stream, p);
  });
}

}  // namespace

void launch_landmark_matrix_forward(const LandmarkMatrixParams& p, Stream stream) {
  if (p.storage == Storage::f32) return launch_forward<float>(p, stream);
  return launch_forward<bf16>(p, stream);
}

void launch_landmark_matrix_backward(const LandmarkMatrixParams& p, Stream stream) {
  if (p.storage == Storage::f32) return launch_backward<float>(p, stream);
  return launch_backward<bf16>(p, stream);
}

}  // namespace lra::ops::cuda
