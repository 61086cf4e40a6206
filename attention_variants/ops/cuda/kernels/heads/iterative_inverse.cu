// The iteration for the pseudo-inverse of softmax matrices, A [n,m,m] -> Z [n,m,m], m <= 128
// (ops/reference/iterative_inverse.h; Razavi et al., ICACSIS 2014).
//
// Traffic: A is read and Z written once an iteration at most; up to m = 64 all else stays in shared
// memory, forward 68 and backward 136 KiB, beyond it two matrices do and the others pass through
// L2. Work: a block a matrix and all iterations, 4 products each; backward 11, of which 3 are
// computed again. Products are by tensor cores, as exact as float32.
#include "attention_variants/ops/cuda/kernels/heads/iterative_inverse.h"

#include "attention_variants/ops/cuda/kernels/heads/square_product.h"
#include "attention_variants/ops/cuda/kernels/rows/reduce.h"

namespace lra::ops::cuda {
namespace {

// Matrices that a block works in, the first two in shared memory; up to m = 64 all of them, and
// copies of A and Z.
constexpr int kForwardSlots = 2, kBackwardSlots = 6;
static_assert(kBackwardSlots - 2 == kInverseScratchMatrices);

template <int size>
constexpr bool kAllShared = size < kMostSquare;
static_assert((kBackwardSlots + 2) * SquareTiles<64>::kFloats * 4 < kMostSharedBytes);
static_assert(2 * SquareTiles<kMostSquare>::kFloats * 4 < kMostSharedBytes);

template <int size, int slots>
constexpr int kSharedSlots = kAllShared<size> ? slots + 2 : 2;

template <int size, int slots>
struct Workspace {
  float *shared, *rest;

  __device__ Workspace(Shared& of, const InverseParams& p)
      : shared(of.take<float>(kSharedSlots<size, slots> * SquareTiles<size>::kFloats)),
        rest(p.scratch + (kAllShared<size> ? 0 : blockIdx.x * int64_t{slots - 2} * size * size)) {}
  __device__ __forceinline__ Square slot(int i) const {
    if (kAllShared<size> || i < 2) return shared_square<size>(shared, i);
    return global_square<size>(rest, i - 2);
  }
  /// Where copies of A and Z are, if there is room; else themselves.
  __device__ __forceinline__ Square near(const Square& there, int i) const {
    return kAllShared<size> ? slot(slots + i) : there;
  }
};

template <int size>
__device__ __forceinline__ void bring(const Square& from, const Square& to) {
  if (!kAllShared<size>) return;
  __syncthreads();  // what stands there is read until here
  each_element<size>([&](int r, int c) { to(r, c) = from(r, c); });
  __syncthreads();
}

template <int size>
__device__ __forceinline__ Square a_of(const InverseParams& p) {
  return global_square<size>(const_cast<float*>(p.a), blockIdx.x);
}

// Z before iteration i.
template <int size>
__device__ __forceinline__ Square z_of(const InverseParams& p, int i) {
  const int64_t before = p.kept == 1 ? 0 : static_cast<int64_t>(i) * p.matrices;
  return global_square<size>(p.z, before + blockIdx.x);
}

__device__ float start_norm(const InverseParams& p) {
  float norm = p.norms[blockIdx.x];
  if (p.global_start) {
    for (int i = 0; i < p.matrices; ++i) norm = fmaxf(norm, p.norms[i]);
  }
  return fmaxf(norm, kLeastNorm);
}

// az = A Z and seven = 7I - A Z.
template <int size>
__device__ __forceinline__ void write_az(const Square& a, const Square& z, const Square& az,
                                         const Square& seven) {
  SquarePart<size> part;
  part.add_product(a.view(), z.view());
  part.write(az, 1);
  part.write(seven, -1, 7);
}

// to = diagonal I - A Z factor.
template <int size>
__device__ __forceinline__ void write_factor(const Square& az, const Square& factor,
                                             const Square& to, float diagonal) {
  SquarePart<size> part;
  part.add_product(az.view(), factor.view());
  part.write(to, -1, diagonal);
}

template <int size>
__global__ void __launch_bounds__(SquareTiles<size>::kThreads, 1) inverse_forward(InverseParams p) {
  Shared shared = block_shared();
  const Workspace<size, kForwardSlots> work(shared, p);
  const Square az = work.slot(0), factor = work.slot(1), a = work.near(a_of<size>(p), 0);
  bring<size>(a_of<size>(p), a);
  const float norm = start_norm(p);
  const Square first = z_of<size>(p, 0);
  each_element<size>([&](int r, int c) { first(r, c) = a(c, r) / norm; });
  __syncthreads();
  Square z = work.near(first, 1);
  bring<size>(first, z);
  for (int i = 0; i < p.iterations; ++i) {
    write_az<size>(a, z, az, factor);
    write_factor<size>(az, factor, factor, 15);
    write_factor<size>(az, factor, factor, 13);
    SquarePart<size> next;
    next.add_product(z.view(), factor.view());
    const Square to = z_of<size>(p, i + 1);
    next.write(to, 0.25F);
    z = work.near(to, 1);
    bring<size>(to, z);
  }
}

// Of next = Z V / 4 with V = 13I - AZ U, U = 15I - AZ W and W = 7I - AZ: adds to grad_a; grad_z, of
// next, becomes that of Z.
template <int size>
__device__ __forceinline__ void iteration_backward(const Workspace<size, kBackwardSlots>& work,
                                                   const Square& a, const Square& z,
                                                   const Square& grad_z, const Square& grad_a) {
  const Square az = work.slot(0), u = work.slot(1), v = work.slot(2), outer = work.slot(4),
               before = work.slot(5), inner = v, grad_az = u;
  write_az<size>(a, z, az, v);
  write_factor<size>(az, v, u, 15);
  write_factor<size>(az, u, v, 13);
  {
    SquarePart<size> direct;
    direct.add_product(grad_z.view(), v.transposed());
    direct.write(before, 0.25F);
  }
  {
    SquarePart<size> of_azu;
    of_azu.add_product(z.transposed(), grad_z.view());
    of_azu.write(outer, -0.25F);
  }
  {
    SquarePart<size> of_w;
    of_w.add_product(az.transposed(), outer.view());
    of_w.write(inner, 1);
  }
  {
    // U's gradient is `outer` times AZ, and -inner that of AZ W: -inner Wᵀ reaches AZ through it,
    // and AZᵀ inner through W.
    SquarePart<size> of_az;
    of_az.add_product(outer.view(), u.transposed());
    of_az.add_product(inner.view(), az.transposed());
    of_az.add_product(az.transposed(), inner.view());
    of_az.each([&](int r, int c, float& x) { x -= 7 * inner(r, c); });
    of_az.write(grad_az, 1);
  }
  {
    SquarePart<size> of_a;
    of_a.each([&](int r, int c, float& x) { x = grad_a(r, c); });
    of_a.add_product(grad_az.view(), z.transposed());
    of_a.each([&](int r, int c, float& x) { grad_a(r, c) = x; });
  }
  SquarePart<size> of_z;
  of_z.each([&](int r, int c, float& x) { x = before(r, c); });
  of_z.add_product(a.transposed(), grad_az.view());
  of_z.write(grad_z, 1);
}

template <int size>
__global__ void __launch_bounds__(SquareTiles<size>::kThreads, 1)
    inverse_backward(InverseParams p) {
  Shared shared = block_shared();
  const Workspace<size, kBackwardSlots> work(shared, p);
  float* const sums = shared.take<float>(kWarp);
  const Square a = work.near(a_of<size>(p), 0), grad_z = work.slot(3),
               grad_a = global_square<size>(p.grad_a, blockIdx.x);
  bring<size>(a_of<size>(p), a);
  const float* const given = p.grad_z + static_cast<int64_t>(blockIdx.x) * p.m * p.m;
  each_element<size>(
      [&](int r, int c) { grad_z(r, c) = r < p.m && c < p.m ? given[r * p.m + c] : 0.0F; });
  SquarePart<size>().each([&](int r, int c, float& x) { grad_a(r, c) = x; });
  for (int i = p.iterations - 1; i >= 0; --i) {
    const Square there = z_of<size>(p, i), z = work.near(there, 1);
    bring<size>(there, z);
    iteration_backward(work, a, z, grad_z, grad_a);
  }
  __syncthreads();
  const float norm = start_norm(p);
  float along = 0;
  each_element<size>([&](int r, int c) {
    grad_a(r, c) += grad_z(c, r) / norm;
    along += grad_z(c, r) * a(r, c);
  });
  along =
      block_reduce<Sum>(along, static_cast<int>(threadIdx.x), SquareTiles<size>::kThreads, sums);
  if (threadIdx.x == 0) p.along[blockIdx.x] = along;
}

template <int size, int slots>
constexpr size_t kSlotBytes =
    shared_bytes<float>(kSharedSlots<size, slots>* SquareTiles<size>::kFloats);

}  // namespace

void launch_inverse_forward(const InverseParams& p, Stream stream) {
  with_square_size(p.m, [&](auto size) {
    constexpr int kSize = decltype(size)::value;
    launch(inverse_forward<kSize>, {static_cast<unsigned>(p.matrices)},
           {SquareTiles<kSize>::kThreads}, kSlotBytes<kSize, kForwardSlots>, stream, p);
  });
}

void launch_inverse_backward(const InverseParams& p, Stream stream) {
  with_square_size(p.m, [&](auto size) {
    constexpr int kSize = decltype(size)::value;
    launch(inverse_backward<kSize>, {static_cast<unsigned>(p.matrices)},
           {SquareTiles<kSize>::kThreads},
           kSlotBytes<kSize, kBackwardSlots> + shared_bytes<float>(kWarp), stream, p);
  });
}

}  // namespace lra::ops::cuda
