#pragma once

namespace lra {

/// What fused multiply-adds of float32 reach on all threads with nothing to load or store, the
/// limit of any product, GFLOP/s: the best of some runs of a few milliseconds. 0 where the
/// processor has neither AVX-512 nor AVX2 with FMA.
double peak_gflops();

}  // namespace lra
