// The tile registers of AMX, and the same by AVX-512 BF16: for tests on processors that have none.
// Sums of a block of tiles, at most 2 by 2, are in the first registers.
#pragma once

#include <immintrin.h>

#include <bit>
#include <cstdint>

#include "attention_variants/ops/cpu/kernels/rows/matrix.h"

namespace lra::ops::cpu::LRA_ISA {

class AmxRegisters {
 public:
  // Of this thread, in the shape of whole tiles.
  LRA_INLINE AmxRegisters() {
    struct alignas(64) Shapes {
      uint8_t palette = 1, first_row = 0, reserved[14] = {};
      uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    };
    static constexpr Shapes kWhole;
    _tile_loadconfig(&kWhole);
  }
  LRA_INLINE ~AmxRegisters() { _tile_release(); }  // others here shape them as they need them
  AmxRegisters(const AmxRegisters&) = delete;
  AmxRegisters& operator=(const AmxRegisters&) = delete;

  // The sums of kCount tiles: zero, or what stands at `from`, rows `stride` bytes apart.
  template <int kCount>
  LRA_INLINE void begin(bool read, float* const* from, int64_t stride) {
    asm volatile("" ::: "memory");  // the compiler does not know that loads of tiles read it
    if (read) {
      _tile_loadd(0, from[0], stride);
      if constexpr (kCount > 1) _tile_loadd(1, from[1], stride);
      if constexpr (kCount > 2) _tile_loadd(2, from[2], stride);
      if constexpr (kCount > 3) _tile_loadd(3, from[3], stride);
    } else {
      _tile_zero(0);
      if constexpr (kCount > 1) _tile_zero(1);
      if constexpr (kCount > 2) _tile_zero(2);
      if constexpr (kCount > 3) _tile_zero(3);
    }
  }

  // Adds the products of kRows tiles from `left` on and kColumns from `right` on, `apart` floats
  // from one to the next.
  template <int kRows, int kColumns>
  LRA_INLINE void add(const float* left, const float* right, int64_t apart) {
    constexpr int64_t kStride = 64;
    _tile_loadd(4, left, kStride);
    _tile_loadd(6, right, kStride);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (kColumns == 2) {
      _tile_loadd(7, right + apart, kStride);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (kRows == 2) {
      _tile_loadd(5, left + apart, kStride);
      if constexpr (kColumns == 2) {
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
      } else {
        _tile_dpbf16ps(1, 5, 6);
      }
    }
  }

  template <int kCount>
  LRA_INLINE void end(float* const* to, int64_t stride) {
    _tile_stored(0, to[0], stride);
    if constexpr (kCount > 1) _tile_stored(1, to[1], stride);
    if constexpr (kCount > 2) _tile_stored(2, to[2], stride);
    if constexpr (kCount > 3) _tile_stored(3, to[3], stride);
    asm volatile("" ::: "memory");
  }
};

class EmulatedRegisters {
 public:
  template <int kCount>
  LRA_INLINE void begin(bool read, float* const* from, int64_t stride) {
    for (int i = 0; i < kCount; ++i) {
      for (int64_t r = 0; r < 16; ++r)
        sums_[i][r] = read ? _mm512_loadu_ps(row(from[i], r, stride)) : _mm512_setzero_ps();
    }
  }

  template <int kRows, int kColumns>
  LRA_INLINE void add(const float* left, const float* right, int64_t apart) {
    for (int i = 0; i < kRows * kColumns; ++i) {
      const float *const rows = left + i / kColumns * apart, *const columns =
                                                                 right + i % kColumns * apart;
      for (int64_t at = 0; at < 256; ++at) {
        const __m512i pair = _mm512_set1_epi32(std::bit_cast<int32_t>(rows[at])),
                      all = _mm512_loadu_si512(columns + at % 16 * 16);
        __m512& sums = sums_[i][at / 16];
        sums = _mm512_dpbf16_ps(sums, reinterpret_cast<const __m512bh&>(pair),
                                reinterpret_cast<const __m512bh&>(all));
      }
    }
  }

  template <int kCount>
  LRA_INLINE void end(float* const* to, int64_t stride) {
    for (int i = 0; i < kCount; ++i) {
      for (int64_t r = 0; r < 16; ++r) _mm512_storeu_ps(row(to[i], r, stride), sums_[i][r]);
    }
  }

 private:
  LRA_INLINE static float* row(float* from, int64_t r, int64_t stride) {
    return from + r * stride / int64_t{sizeof(float)};
  }
  __m512 sums_[4][16];
};

}  // namespace lra::ops::cpu::LRA_ISA
