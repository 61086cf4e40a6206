// How the kernels of one head leave padding out.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <xmmintrin.h>
#endif

#include "attention_variants/ops/cpu/kernels/rows/matrix.h"

namespace lra::ops::cpu {

/// Whether a sample has padding before a token, so that its rows have to be copied without it.
enum class InnerPadding { no, yes };

}  // namespace lra::ops::cpu

namespace lra::ops::LRA_KERNELS {

// What one head of one sample looks like under its mask.
struct TokenSpan {
  int64_t length = 0;  // positions up to the last token
  bool holes = false;  // whether padding stands before it
};

inline InnerPadding padding_of(const TokenSpan& span) {
  return span.holes ? InnerPadding::yes : InnerPadding::no;
}

// Positions up to the last token.
inline int64_t used_length(const bool* mask, int64_t length) {
  constexpr int64_t kMany = sizeof(uint64_t);
  for (uint64_t many = 0; length >= kMany; length -= kMany) {
    std::memcpy(&many, mask + length - kMany, kMany);
    if (many != 0) break;
  }
  while (length > 0 && !mask[length - 1]) --length;
  return length;
}

inline TokenSpan span_of(const bool* mask, int64_t length) {
  length = used_length(mask, length);
  return {.length = length,
          .holes = length > 0 && std::memchr(mask, 0, static_cast<size_t>(length)) != nullptr};
}

// A mask, or none, from a later position on.
inline const bool* mask_from(const bool* mask, int64_t begin) {
  return mask == nullptr ? nullptr : mask + begin;
}

// Whether `mask` [count] has a token; null = all are.
inline bool any_token(const bool* mask, int64_t count) {
  return mask == nullptr ? count > 0 : used_length(mask, count) > 0;
}

// A copy of x [span.length,width] with its padded rows zero.
inline ConstMatrix copy_tokens(ConstMatrix x, const bool* mask, const TokenSpan& span,
                               int64_t width, float* copy) {
  for (int64_t t = 0; t < span.length; ++t) {
    float* row = copy + t * width;
    if (!span.holes || mask[t]) {
      std::copy(x[t], x[t] + width, row);
    } else {
      std::fill(row, row + width, 0.0F);
    }
  }
  return {copy, width};
}

// x with its padded rows zero: itself where there are none, else a copy.
inline ConstMatrix without_padding(ConstMatrix x, const bool* mask, const TokenSpan& span,
                                   int64_t width, float* copy) {
  return span.holes ? copy_tokens(x, mask, span, width, copy) : x;
}

// Rows [0, rows) of x with those of padding zero: x itself where there are none, else a copy.
inline ConstMatrix without_padding(ConstMatrix x, const bool* mask, int64_t rows, int64_t width,
                                   float* copy) {
  const bool holes = std::find(mask, mask + rows, false) != mask + rows;
  return without_padding(x, mask, TokenSpan{.length = rows, .holes = holes}, width, copy);
}

inline void zero_rows(Matrix x, int64_t begin, int64_t end, int64_t width) {
  for (int64_t t = begin; t < end; ++t) std::fill(x[t], x[t] + width, 0.0F);
}

// Zeros, past the caches: to store them there would read what they overwrite first.
inline void stream_zeros(float* to, int64_t count) {
#ifdef __SSE2__
  constexpr int64_t kLine = 16;
  const int64_t past =
                    static_cast<int64_t>(reinterpret_cast<uintptr_t>(to) / sizeof(float)) % kLine,
                head = std::min((kLine - past) % kLine, count), lines = (count - head) / kLine;
  std::fill(to, to + head, 0.0F);
  to += head;
  for (int64_t i = 0; i < lines; ++i, to += kLine) {
    for (int64_t part = 0; part < kLine; part += 4) _mm_stream_ps(to + part, _mm_setzero_ps());
  }
  count -= head + lines * kLine;
#endif
  std::fill(to, to + count, 0.0F);
}

// Zeros in rows that are not read soon: those of padding in results.
inline void blank_rows(Matrix x, int64_t begin, int64_t end, int64_t width) {
  constexpr int64_t kStreamed = 4096;  // floats, below which the caches hold them
  if ((end - begin) * width < kStreamed) return zero_rows(x, begin, end, width);
  if (x.stride == width) {
    stream_zeros(x[begin], (end - begin) * width);
  } else {
    for (int64_t t = begin; t < end; ++t) stream_zeros(x[t], width);
  }
#ifdef __SSE2__
  _mm_sfence();  // before another thread reads them
#endif
}

inline void zero_padding(Matrix x, const bool* mask, const TokenSpan& span, int64_t length,
                         int64_t width) {
  if (span.holes) {
    for (int64_t t = 0; t < span.length; ++t) {
      if (!mask[t]) std::fill(x[t], x[t] + width, 0.0F);
    }
  }
  blank_rows(x, span.length, length, width);
}

}  // namespace lra::ops::LRA_KERNELS
