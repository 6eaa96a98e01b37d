// SPDX-License-Identifier: Apache-2.0
#include "triax/comm/reduce_kernels.h"

#include <immintrin.h>

#include <bit>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

// The resolvers of clones run before a sanitizer is ready.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
    defined(__clang__)
#define TRIAX_CLONES
#else
#define TRIAX_CLONES __attribute__((target_clones("avx2", "default")))
#endif

namespace triax::detail {

namespace {

float widen_one_f16(uint16_t bits) {
  const uint32_t sign = uint32_t(bits & 0x8000) << 16;
  const uint32_t magnitude = bits & 0x7fff;
  if (magnitude >= 0x7c00) {  // infinity, or a NaN made quiet
    const uint32_t quiet = magnitude > 0x7c00 ? 0x00400000 : 0;
    return std::bit_cast<float>(sign | 0x7f800000 | quiet |
                                (magnitude & 0x3ff) << 13);
  }
  // Exact: the exponent is moved by a product with a power of two.
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(scaled) | sign);
}

uint16_t narrow_one_f16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint16_t sign = uint16_t(bits >> 16 & 0x8000);
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) {
    return uint16_t(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
  }
  if (magnitude >= 0x47800000) {  // 65536 and more
    return uint16_t(sign | 0x7c00);
  }
  if (magnitude < 0x38800000) {  // subnormal: the addition rounds
    const float rounded = std::bit_cast<float>(magnitude) + 0.5f;
    return uint16_t(sign | (std::bit_cast<uint32_t>(rounded) - 0x3f000000));
  }
  const uint32_t odd = magnitude >> 13 & 1;
  return uint16_t(sign | (magnitude - 0x38000000 + 0xfff + odd) >> 13);
}

__attribute__((target("avx2,f16c"))) int64_t widen_fast_f16(float* out,
                                                            const uint16_t* in,
                                                            int64_t numel) {
  int64_t i = 0;
  for (; i + 8 <= numel; i += 8) {
    const __m128i half =
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i));
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(half));
  }
  return i;
}

__attribute__((target("avx2,f16c"))) int64_t narrow_fast_f16(uint16_t* out,
                                                             const float* in,
                                                             int64_t numel) {
  int64_t i = 0;
  for (; i + 8 <= numel; i += 8) {
    const __m128i half =
        _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), half);
  }
  return i;
}

bool has_f16c() {
  static const bool has =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
  return has;
}

}  // namespace

TRIAX_CLONES
void add_f32(float* __restrict acc, const float* __restrict in, int64_t numel) {
  for (int64_t i = 0; i < numel; ++i) {
    acc[i] += in[i];
  }
}

TRIAX_CLONES
void max_f32(float* __restrict acc, const float* __restrict in, int64_t numel) {
  for (int64_t i = 0; i < numel; ++i) {
    acc[i] = acc[i] > in[i] || acc[i] != acc[i] ? acc[i] : in[i];
  }
}

TRIAX_CLONES
void divide_f32(float* acc, float divisor, int64_t numel) {
  for (int64_t i = 0; i < numel; ++i) {
    acc[i] /= divisor;
  }
}

TRIAX_CLONES
void add_f64(double* __restrict acc,
             const double* __restrict in,
             int64_t numel) {
  for (int64_t i = 0; i < numel; ++i) {
    acc[i] += in[i];
  }
}

TRIAX_CLONES
void max_f64(double* __restrict acc,
             const double* __restrict in,
             int64_t numel) {
  for (int64_t i = 0; i < numel; ++i) {
    acc[i] = acc[i] > in[i] || acc[i] != acc[i] ? acc[i] : in[i];
  }
}

TRIAX_CLONES
void divide_f64(double* acc, double divisor, int64_t numel) {
  for (int64_t i = 0; i < numel; ++i) {
    acc[i] /= divisor;
  }
}

TRIAX_CLONES
void add_i64(int64_t* __restrict acc,
             const int64_t* __restrict in,
             int64_t numel) {
  for (int64_t i = 0; i < numel; ++i) {
    acc[i] = int64_t(uint64_t(acc[i]) + uint64_t(in[i]));  // may wrap
  }
}

TRIAX_CLONES
void max_i64(int64_t* __restrict acc,
             const int64_t* __restrict in,
             int64_t numel) {
  for (int64_t i = 0; i < numel; ++i) {
    acc[i] = acc[i] > in[i] ? acc[i] : in[i];
  }
}

void divide_i64(int64_t* acc, int64_t divisor, int64_t numel) {
  for (int64_t i = 0; i < numel; ++i) {
    acc[i] /= divisor;
  }
}

TRIAX_CLONES
void widen_bf16(float* __restrict out,
                const uint16_t* __restrict in,
                int64_t numel) {
  for (int64_t i = 0; i < numel; ++i) {
    out[i] = std::bit_cast<float>(uint32_t(in[i]) << 16);
  }
}

TRIAX_CLONES
void narrow_bf16(uint16_t* __restrict out,
                 const float* __restrict in,
                 int64_t numel) {
  for (int64_t i = 0; i < numel; ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(in[i]);
    const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    const uint32_t quiet = bits >> 16 | 0x40;
    out[i] = uint16_t((bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
  }
}

void widen_f16(float* out, const uint16_t* in, int64_t numel) {
  for (int64_t i = has_f16c() ? widen_fast_f16(out, in, numel) : 0; i < numel;
       ++i) {
    out[i] = widen_one_f16(in[i]);
  }
}

void narrow_f16(uint16_t* out, const float* in, int64_t numel) {
  for (int64_t i = has_f16c() ? narrow_fast_f16(out, in, numel) : 0; i < numel;
       ++i) {
    out[i] = narrow_one_f16(in[i]);
  }
}

}  // namespace triax::detail
