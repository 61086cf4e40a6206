// K3. Embeddings of tokens and positions and their dropout (ops/embedding.h).
//
// Traffic: forward, ids [B,N] in and y [B,L,D] out, each once; the tables come from cache.
// Backward, grad_y and the ids in once, parts [V,D] of the tokens' gradient out. Work: forward, a
// thread has the eight elements of one draw of the dropout. Backward, a block has some positions of
// all samples and 32 columns: a warp adds up a position's rows in the order of the samples, and
// puts each to the sum of its token, in a table of the warp's own in shared memory. So nothing is
// sorted, no token however frequent is waited for, and no atomics decide the order.
#include "attention_variants/ops/cuda/kernels/rows/embedding.h"

#include "attention_variants/ops/cuda/kernels/rows/device.h"
#include "attention_variants/ops/cuda/kernels/rows/dropout.h"
#include "attention_variants/ops/cuda/kernels/rows/dropout_draw.h"

namespace lra::ops::cuda {
namespace {

constexpr int kThreads = 256, kMostWarps = 8;
constexpr float kNotANumber = NAN;

// What stands at position l of sample b: a token's id, or no token but the first vector.
struct Place {
  bool real, is_first;
  int64_t id;

  __device__ Place(const EmbeddingParams& p, int64_t b, int l) {
    const int before = p.has_first ? 1 : 0;
    const int64_t at = b * (p.length - before) + l - before;
    is_first = l < before;
    real = is_first || p.mask == nullptr || p.mask[at];
    id = real && !is_first ? p.ids[at] : -1;
  }
  __device__ bool has_token(const EmbeddingParams& p) const { return id >= 0 && id < p.vocabulary; }
};

template <class T>
__global__ void __launch_bounds__(kThreads) embedding_forward(EmbeddingParams p) {
  const auto *tokens = static_cast<const T*>(p.tokens),
             *positions = static_cast<const T*>(p.positions),
             *first = static_cast<const T*>(p.first);
  auto* y = static_cast<T*>(p.y);
  DropoutMask dropout(p.dropout);
  const int64_t number =
      DropoutDraw::first(p.dropout, 0) + static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int64_t count = static_cast<int64_t>(p.batch) * p.length * p.width;
  DropoutDraw(p.dropout, p.width, number).each(0, count, [&](int64_t e, int64_t row, int c) {
    const int64_t b = row / p.length;
    const int l = static_cast<int>(row - b * p.length);
    const Place place(p, b, l);
    float sum = 0;
    if (place.real) {
      sum = to_float(positions[static_cast<int64_t>(l) * p.width + c]);
      if (place.is_first) {
        sum += to_float(first[c]);
      } else {
        sum += place.has_token(p) ? to_float(tokens[place.id * p.width + c]) : kNotANumber;
      }
      sum = dropout.apply(sum, e);
    }
    y[e] = from_float<T>(sum);
  });
}

template <class T>
__global__ void __launch_bounds__(kMostWarps* kWarp) embedding_backward(EmbeddingParams p) {
  const int lane = threadIdx.x, warp = threadIdx.y, warps = blockDim.y,
            c = static_cast<int>(blockIdx.y) * kWarp + lane,
            of_part = embedding_positions_of_part(p.length),
            begin = static_cast<int>(blockIdx.x) * of_part,
            end = begin + of_part < p.length ? begin + of_part : p.length,
            size = p.vocabulary * kWarp;
  const auto* grad = static_cast<const T*>(p.grad_y);
  Shared shared = block_shared();
  auto* const tables = shared.take<float>(warps * size);  // [warps,V,kWarp]
  float* const own = tables + warp * size + lane;
  for (int v = 0; v < p.vocabulary; ++v) own[v * kWarp] = 0;
  DropoutMask dropout(p.dropout);
  for (int l = begin + warp; l < end; l += warps) {
    if (c >= p.width) break;
    float of_position = 0, of_first = 0;
#pragma unroll 4
    for (int b = 0; b < p.batch; ++b) {
      const Place place(p, b, l);
      if (!place.real) continue;
      const int64_t e = (static_cast<int64_t>(b) * p.length + l) * p.width + c;
      const float of = dropout.apply(to_float(grad[e]), e);
      of_position += of;
      if (place.has_token(p)) own[place.id * kWarp] += of;
      if (place.is_first) of_first += of;
    }
    if (p.grad_positions != nullptr)
      p.grad_positions[static_cast<int64_t>(l) * p.width + c] = of_position;
    if (p.grad_first != nullptr && l == 0) p.grad_first[c] = of_first;
  }
  __syncthreads();
  if (c >= p.width) return;
  float* to = p.token_parts + static_cast<int64_t>(blockIdx.x) * p.vocabulary * p.width + c;
  for (int v = warp; v < p.vocabulary; v += warps) {
    float sum = 0;
    for (int w = 0; w < warps; ++w) sum += tables[w * size + v * kWarp + lane];
    to[static_cast<int64_t>(v) * p.width] = sum;
  }
}

}  // namespace

void launch_embedding_forward(const EmbeddingParams& p, Stream stream) {
  const int64_t count = static_cast<int64_t>(p.batch) * p.length * p.width,
                draws = DropoutDraw::last(p.dropout, count) - DropoutDraw::first(p.dropout, 0);
  if (count == 0) return;
  launch(p.storage == Storage::f32 ? embedding_forward<float> : embedding_forward<bf16>,
         {static_cast<unsigned>(ceil_div<int64_t>(draws, kThreads))}, {kThreads}, 0, stream, p);
}

void launch_embedding_backward(const EmbeddingParams& p, Stream stream) {
  if (p.length == 0 || p.width == 0) return;
  constexpr size_t kShared = 48 * 1024;
  const auto of_warp = static_cast<size_t>(embedding_shared_bytes(p.vocabulary));
  const auto warps = static_cast<unsigned>(
      std::clamp<size_t>(kShared / std::max<size_t>(of_warp, 1), 1, kMostWarps));
  launch(p.storage == Storage::f32 ? embedding_backward<float> : embedding_backward<bf16>,
         {static_cast<unsigned>(embedding_parts(p.length)),
          static_cast<unsigned>(ceil_div(p.width, kWarp))},
         {kWarp, warps}, warps * of_warp, stream, p);
}

}  // namespace lra::ops::cuda
