#include "attention_variants/ops/cpu/kernels/rows/dropout_bits.h"

#include <algorithm>
#include <array>
#include <bit>

#include "attention_variants/base/philox.h"
#include "attention_variants/ops/cpu/kernels/rows/vector_math.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace lra::ops::cpu::LRA_ISA {
namespace {

constexpr int64_t kLanes = kDropoutLanes;

// x * scale where the element is kept, else 0.
LRA_INLINE float kept_or_zero(bool kept, float x, float scale) {
  return std::bit_cast<float>(std::bit_cast<uint32_t>(x * scale) & (kept ? 0xFFFFFFFF : 0));
}
LRA_INLINE double kept_or_zero(bool kept, double x, double scale) { return kept ? x * scale : 0.0; }
LRA_INLINE uint16_t kept_or_zero(bool kept, uint16_t x, float scale) {
  const uint32_t bits = bfloat16_bits(std::bit_cast<float>(uint32_t{x} << 16) * scale);
  return static_cast<uint16_t>(kept ? bits : 0);
}

template <class T, class Factor>
LRA_INLINE void keep_rows(const T* x, T* y, const uint16_t* bits, int64_t count, Factor scale) {
  for (int64_t row = 0; row < count; row += kLanes) {
    const uint32_t of = bits[row / kLanes];
    const auto some = [&](int64_t n) {
#pragma omp simd
      for (int64_t l = 0; l < n; ++l)
        y[row + l] = kept_or_zero((of >> l & 1) != 0, x[row + l], scale);
    };
    if (count - row >= kLanes) {
      some(kLanes);
    } else {
      some(count - row);
    }
  }
}

}  // namespace

void apply_keep_bits(const float* x, float* y, const uint16_t* bits, int64_t count, float scale) {
#if defined(__AVX512F__)
  // A row's bits are a mask as they are, which compilers do not find.
  const __m512 factor = _mm512_set1_ps(scale);
  int64_t row = 0;
  for (; row + kLanes <= count; row += kLanes)
    _mm512_storeu_ps(y + row,
                     _mm512_maskz_mul_ps(bits[row / kLanes], _mm512_loadu_ps(x + row), factor));
  keep_rows(x + row, y + row, bits + row / kLanes, count - row, scale);
#else
  keep_rows(x, y, bits, count, scale);
#endif
}
void apply_keep_bits(const uint16_t* x, uint16_t* y, const uint16_t* bits, int64_t count,
                     float scale) {
  keep_rows(x, y, bits, count, scale);
}
void apply_keep_bits(const double* x, double* y, const uint16_t* bits, int64_t count,
                     double scale) {
  keep_rows(x, y, bits, count, scale);
}

#if !defined(__AVX2__)

void philox_keep_bits(uint64_t seed, int64_t first_block, int64_t blocks, uint32_t threshold,
                      uint16_t* bits) {
  const std::array<uint32_t, 2> key = {static_cast<uint32_t>(seed),
                                       static_cast<uint32_t>(seed >> 32)};
  for (int64_t b = 0; b < blocks; ++b) {
    std::array<std::array<uint32_t, kLanes>, 4> words;
    for (size_t l = 0; l < kLanes; ++l) {
      const auto counter = static_cast<uint64_t>((first_block + b) * kLanes) + l;
      const std::array<uint32_t, 4> drawn =
          philox({static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0}, key);
      for (size_t w = 0; w < 4; ++w) words[w][l] = drawn[w];
    }
    for (size_t w = 0; w < 4; ++w) {
      uint32_t low = 0, high = 0;
      for (size_t l = 0; l < kLanes; ++l) {
        low |= uint32_t{(words[w][l] & 0xFFFF) >= threshold} << l;
        high |= uint32_t{(words[w][l] >> 16) >= threshold} << l;
      }
      *bits++ = static_cast<uint16_t>(low);
      *bits++ = static_cast<uint16_t>(high);
    }
  }
}

#else

namespace {

// Both halves of the key, as each round has them.
struct RoundKeys {
  uint32_t first[10], second[10];

  explicit RoundKeys(uint64_t seed) {
    auto k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
    for (int round = 0; round < 10; ++round) {
      first[round] = k0;
      second[round] = k1;
      k0 += kPhiloxKeySteps[0];
      k1 += kPhiloxKeySteps[1];
    }
  }
};

}  // namespace

#if defined(__AVX512F__)

// GCC's own header, inlined here, sets off this warning (its bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

// By intrinsics: compilers make no use of the instruction that multiplies 32 bits by 32 to 64.
// Words stand in lanes of 64 bits, whose upper halves hold anything. Two blocks at a time, so that
// no multiplication is waited for.
void philox_keep_bits(uint64_t seed, int64_t first_block, int64_t blocks, uint32_t threshold,
                      uint16_t* bits) {
  const RoundKeys keys(seed);
  __m512i key0[10], key1[10];
  for (int round = 0; round < 10; ++round) {
    key0[round] = _mm512_set1_epi64(keys.first[round]);
    key1[round] = _mm512_set1_epi64(keys.second[round]);
  }
  const __m512i m0 = _mm512_set1_epi64(kPhiloxMultipliers[0]),
                m1 = _mm512_set1_epi64(kPhiloxMultipliers[1]),
                at_least = _mm512_set1_epi32(static_cast<int32_t>(threshold)),
                half = _mm512_set1_epi32(0xFFFF), lanes = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0),
                even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
  constexpr int xor_of_three = 0x96;
  for (int64_t b = 0; b < blocks; b += 2) {
    __m512i word[4][4];
    for (int64_t v = 0; v < 4; ++v) {
      word[0][v] = _mm512_add_epi64(_mm512_set1_epi64((first_block + b) * kLanes + v * 8), lanes);
      word[1][v] = _mm512_srli_epi64(word[0][v], 32);
      word[2][v] = word[3][v] = _mm512_setzero_si512();
    }
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) {
#pragma GCC unroll 4
      for (int v = 0; v < 4; ++v) {
        const __m512i a = _mm512_mul_epu32(word[0][v], m0), c = _mm512_mul_epu32(word[2][v], m1);
        word[0][v] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(c, 32), word[1][v], key0[round],
                                               xor_of_three);
        word[1][v] = c;
        word[2][v] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(a, 32), word[3][v], key1[round],
                                               xor_of_three);
        word[3][v] = a;
      }
    }
    for (int64_t of = 0; of < std::min<int64_t>(2, blocks - b); ++of) {
      for (const auto& w : word) {
        const __m512i lower = _mm512_permutex2var_epi32(w[2 * of], even, w[2 * of + 1]);
        *bits++ = _mm512_cmpge_epu32_mask(_mm512_and_si512(lower, half), at_least);
        *bits++ = _mm512_cmpge_epu32_mask(_mm512_srli_epi32(lower, 16), at_least);
      }
    }
  }
}

#else

// The same with narrower registers, half a block at a time: as many words as they hold.
void philox_keep_bits(uint64_t seed, int64_t first_block, int64_t blocks, uint32_t threshold,
                      uint16_t* bits) {
  const RoundKeys keys(seed);
  __m256i key0[10], key1[10];
  for (int round = 0; round < 10; ++round) {
    key0[round] = _mm256_set1_epi64x(keys.first[round]);
    key1[round] = _mm256_set1_epi64x(keys.second[round]);
  }
  const __m256i m0 = _mm256_set1_epi64x(kPhiloxMultipliers[0]),
                m1 = _mm256_set1_epi64x(kPhiloxMultipliers[1]),
                below = _mm256_set1_epi32(static_cast<int32_t>(threshold) - 1),
                half = _mm256_set1_epi32(0xFFFF);
  // Such that the lower halves of both, taken together 128 bits at a time, are in order.
  const __m256i lanes[2] = {_mm256_set_epi64x(5, 4, 1, 0), _mm256_set_epi64x(7, 6, 3, 2)};
  for (int64_t part = 0; part < 2 * blocks; ++part) {
    const __m256i first = _mm256_set1_epi64x(first_block * kLanes + part * 8);
    __m256i word[4][2];
    for (int64_t v = 0; v < 2; ++v) {
      word[0][v] = _mm256_add_epi64(first, lanes[v]);
      word[1][v] = _mm256_srli_epi64(word[0][v], 32);
      word[2][v] = word[3][v] = _mm256_setzero_si256();
    }
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) {
#pragma GCC unroll 2
      for (int v = 0; v < 2; ++v) {
        const __m256i a = _mm256_mul_epu32(word[0][v], m0), c = _mm256_mul_epu32(word[2][v], m1);
        word[0][v] =
            _mm256_xor_si256(_mm256_srli_epi64(c, 32), _mm256_xor_si256(word[1][v], key0[round]));
        word[1][v] = c;
        word[2][v] =
            _mm256_xor_si256(_mm256_srli_epi64(a, 32), _mm256_xor_si256(word[3][v], key1[round]));
        word[3][v] = a;
      }
    }
    const int64_t block = part / 2, shift = part % 2 * 8;
    uint16_t* to = bits + block * kDropoutHalves;
    const auto put = [&](__m256i halves) __attribute__((always_inline)) {
      const auto kept = static_cast<uint32_t>(
          _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(halves, below))));
      *to = static_cast<uint16_t>((shift == 0 ? 0 : *to) | kept << shift);
      ++to;
    };
    for (const auto& w : word) {
      const __m256i lower = _mm256_castps_si256(_mm256_shuffle_ps(
          _mm256_castsi256_ps(w[0]), _mm256_castsi256_ps(w[1]), _MM_SHUFFLE(2, 0, 2, 0)));
      put(_mm256_and_si256(lower, half));
      put(_mm256_srli_epi32(lower, 16));
    }
  }
}

#endif  // AVX-512

#endif  // AVX2

}  // namespace lra::ops::cpu::LRA_ISA
