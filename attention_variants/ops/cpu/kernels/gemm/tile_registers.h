// The tile registers of AMX, and the same by AVX-512 BF16: for tests on processors that have none.
// Sums of a block of tiles, at most 2 by 2, are in the first registers.
#pragma once

#include <immintrin.h>

#include <bit>
#include <cstdint>

#include "attention_variants/ops/cpu/kernels/rows/matrix.h"

namespace lra::ops::cpu::LRA_ISA {

// Where a block of tiles of floats stands: its rows, and from tile to tile below and beside.
struct TilePlaces {
  float* first;
  int64_t stride, below, beside;
};

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

  // The sums of a block: zero, or what stands there.
  template <int kRows, int kColumns>
  LRA_INLINE void begin(bool read, const TilePlaces& at) {
    asm volatile("" ::: "memory");  // the compiler does not know that loads of tiles read it
    if (!read) {
      _tile_zero(0);
      if constexpr (kColumns == 2) _tile_zero(1);
      if constexpr (kRows == 2) _tile_zero(2);
      if constexpr (kRows == 2 && kColumns == 2) _tile_zero(3);
      return;
    }
    const int64_t stride = at.stride * int64_t{sizeof(float)};
    _tile_loadd(0, at.first, stride);
    if constexpr (kColumns == 2) _tile_loadd(1, at.first + at.beside, stride);
    if constexpr (kRows == 2) _tile_loadd(2, at.first + at.below, stride);
    if constexpr (kRows == 2 && kColumns == 2)
      _tile_loadd(3, at.first + at.below + at.beside, stride);
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
      _tile_dpbf16ps(2, 5, 6);
      if constexpr (kColumns == 2) _tile_dpbf16ps(3, 5, 7);
    }
  }

  template <int kRows, int kColumns>
  LRA_INLINE void end(const TilePlaces& at) {
    const int64_t stride = at.stride * int64_t{sizeof(float)};
    _tile_stored(0, at.first, stride);
    if constexpr (kColumns == 2) _tile_stored(1, at.first + at.beside, stride);
    if constexpr (kRows == 2) _tile_stored(2, at.first + at.below, stride);
    if constexpr (kRows == 2 && kColumns == 2)
      _tile_stored(3, at.first + at.below + at.beside, stride);
    asm volatile("" ::: "memory");
  }
};

class EmulatedRegisters {
 public:
  template <int kRows, int kColumns>
  LRA_INLINE void begin(bool read, const TilePlaces& at) {
    for_rows<kRows, kColumns>(at, [&](__m512& sums, const float* row) {
      sums = read ? _mm512_loadu_ps(row) : _mm512_setzero_ps();
    });
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

  template <int kRows, int kColumns>
  LRA_INLINE void end(const TilePlaces& at) {
    for_rows<kRows, kColumns>(at,
                              [&](const __m512& sums, float* row) { _mm512_storeu_ps(row, sums); });
  }

 private:
  // Calls body(sums, where they stand) for each row of the tiles.
  template <int kRows, int kColumns, class Body>
  LRA_INLINE void for_rows(const TilePlaces& at, const Body& body) {
    for (int i = 0; i < kRows * kColumns; ++i) {
      float* const tile = at.first + i / kColumns * at.below + i % kColumns * at.beside;
      for (int64_t r = 0; r < 16; ++r) body(sums_[i][r], tile + r * at.stride);
    }
  }
  __m512 sums_[4][16];
};

}  // namespace lra::ops::cpu::LRA_ISA
