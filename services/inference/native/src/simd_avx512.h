// Sixteen lanes in one AVX-512 register; dot products by VNNI.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace edgelora::simd {
// Every source file has its own, since each is compiled for another instruction set.
namespace {

using F32 = __m512;
using I32 = __m512i;
using Bytes = __m512i;  // 16 rows x 4 unsigned bytes

constexpr int kTileRows = 8;      // activation rows a GEMM tile keeps in registers
constexpr int kFloatTileRows = 8;  // the same of a product of floats
constexpr int kQueryTile = 12;     // attention queries that share one pass over the keys
constexpr int32_t kByteBias = 128;  // dot8 takes bytes + 128

inline F32 zero() { return _mm512_setzero_ps(); }
inline F32 splat(float x) { return _mm512_set1_ps(x); }
inline F32 load(const float* p) { return _mm512_loadu_ps(p); }
inline void store(float* p, F32 v) { _mm512_storeu_ps(p, v); }
inline F32 load_half(const uint16_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline void store_half(uint16_t* p, F32 v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
inline F32 add(F32 a, F32 b) { return _mm512_add_ps(a, b); }
inline F32 sub(F32 a, F32 b) { return _mm512_sub_ps(a, b); }
inline F32 mul(F32 a, F32 b) { return _mm512_mul_ps(a, b); }
inline F32 div(F32 a, F32 b) { return _mm512_div_ps(a, b); }
inline F32 fma(F32 a, F32 b, F32 c) { return _mm512_fmadd_ps(a, b, c); }
inline F32 max(F32 a, F32 b) { return _mm512_max_ps(a, b); }
inline F32 min(F32 a, F32 b) { return _mm512_min_ps(a, b); }
inline F32 to_float(I32 a) { return _mm512_cvtepi32_ps(a); }
inline I32 round_to_int(F32 a) { return _mm512_cvtps_epi32(a); }
inline F32 scale_by_power_of_two(F32 a, I32 n) { return _mm512_scalef_ps(a, to_float(n)); }
inline float sum(F32 a) { return _mm512_reduce_add_ps(a); }
inline float max_of(F32 a) { return _mm512_reduce_max_ps(a); }
// The largest |x| of both; not finite when one of them is not: as bits, infinities and NaN are
// above every number.
inline float largest_magnitude(F32 a, F32 b) {
  const __m512i largest = _mm512_max_epi32(_mm512_castps_si512(_mm512_abs_ps(a)),
                                           _mm512_castps_si512(_mm512_abs_ps(b)));
  return _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(_mm512_reduce_max_epi32(largest))));
}
// Lanes below n keep their value, the others become x.
inline F32 keep_first(F32 a, int n, float x) {
  return _mm512_mask_blend_ps(static_cast<__mmask16>((1u << n) - 1), splat(x), a);
}
// Lanes below x become 0.
inline F32 zero_below(F32 a, float x) {
  return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(a, splat(x), _CMP_GE_OQ), a);
}
// Bit i: lane i is at least x.
inline uint32_t at_least(F32 a, float x) {
  return _mm512_cmp_ps_mask(a, splat(x), _CMP_GE_OQ);
}

inline I32 splat_int(int32_t x) { return _mm512_set1_epi32(x); }
inline I32 add_int(I32 a, I32 b) { return _mm512_add_epi32(a, b); }
inline int32_t sum_int(I32 a) { return _mm512_reduce_add_epi32(a); }
inline void store_bytes(int8_t* p, I32 a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtsepi32_epi8(a));
}
inline I32 widen_bytes(const int8_t* p) {
  return _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

inline Bytes load_bytes(const uint8_t* p) { return _mm512_loadu_si512(p); }
inline Bytes low_nibbles(Bytes b) { return _mm512_and_si512(b, _mm512_set1_epi8(15)); }
inline Bytes high_nibbles(Bytes b) {
  return _mm512_and_si512(_mm512_srli_epi16(b, 4), _mm512_set1_epi8(15));
}
// Each byte of `high` has kBits bits for every part, those of part[0] lowest. They go above the
// nibbles there.
template <int kBits>
inline void set_high_bits(Bytes* part, Bytes high) {
  const __m512i mask = _mm512_set1_epi8(((1 << kBits) - 1) << 4);
  for (int p = 0; p < 8 / kBits; p++) {
    const int left = 4 - kBits * p;
    const __m512i bits = left >= 0 ? _mm512_slli_epi16(high, static_cast<unsigned>(left))
                                   : _mm512_srli_epi16(high, static_cast<unsigned>(-left));
    part[p] = _mm512_ternarylogic_epi32(part[p], bits, mask, 0xf8);  // part | (bits & mask)
  }
}
// Of two bfloat16 in each lane, the first or the second as floats.
inline F32 first_halves(Bytes b) { return _mm512_castsi512_ps(_mm512_slli_epi32(b, 16)); }
inline F32 second_halves(Bytes b) {
  return _mm512_castsi512_ps(_mm512_and_si512(b, _mm512_set1_epi32(~0xffff)));
}
// acc[lane] += sum over 4 of w[lane][i] * x[i]; x is four signed bytes, w of dot7 below 128.
inline I32 dot7(I32 acc, Bytes w, const int8_t* x) {
  int32_t four;
  __builtin_memcpy(&four, x, 4);
  return _mm512_dpbusd_epi32(acc, w, _mm512_set1_epi32(four));
}
inline I32 dot8(I32 acc, Bytes w, const int8_t* x) { return dot7(acc, w, x); }
inline void prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }

}  // namespace
}  // namespace edgelora::simd
