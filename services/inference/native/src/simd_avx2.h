// Sixteen lanes in two AVX2 registers; dot products by AVX-VNNI where the compiler may use it.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace edgelora::simd {
// Every source file has its own, since each is compiled for another instruction set.
namespace {

struct F32 {
  __m256 low, high;
};
struct I32 {
  __m256i low, high;
};
struct Bytes {  // 16 rows x 4 unsigned bytes
  __m256i low, high;
};

constexpr int kTileRows = 4;
constexpr int kFloatTileRows = 2;
constexpr int kQueryTile = 3;
constexpr int32_t kByteBias = 128;

inline F32 splat(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
inline F32 zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
inline F32 load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline void store(float* p, F32 v) {
  _mm256_storeu_ps(p, v.low);
  _mm256_storeu_ps(p + 8, v.high);
}
inline F32 load_half(const uint16_t* p) {
  const auto* q = reinterpret_cast<const __m128i*>(p);
  return {_mm256_cvtph_ps(_mm_loadu_si128(q)), _mm256_cvtph_ps(_mm_loadu_si128(q + 1))};
}
inline void store_half(uint16_t* p, F32 v) {
  auto* q = reinterpret_cast<__m128i*>(p);
  _mm_storeu_si128(q, _mm256_cvtps_ph(v.low, _MM_FROUND_TO_NEAREST_INT));
  _mm_storeu_si128(q + 1, _mm256_cvtps_ph(v.high, _MM_FROUND_TO_NEAREST_INT));
}
inline F32 add(F32 a, F32 b) {
  return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
}
inline F32 sub(F32 a, F32 b) {
  return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)};
}
inline F32 mul(F32 a, F32 b) {
  return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
}
inline F32 div(F32 a, F32 b) {
  return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)};
}
inline F32 fma(F32 a, F32 b, F32 c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
inline F32 max(F32 a, F32 b) {
  return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)};
}
inline F32 min(F32 a, F32 b) {
  return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)};
}
inline F32 to_float(I32 a) { return {_mm256_cvtepi32_ps(a.low), _mm256_cvtepi32_ps(a.high)}; }
inline I32 round_to_int(F32 a) { return {_mm256_cvtps_epi32(a.low), _mm256_cvtps_epi32(a.high)}; }
// n within -126 .. 127.
inline F32 scale_by_power_of_two(F32 a, I32 n) {
  const auto power = [](__m256i e) {
    return _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_add_epi32(e, _mm256_set1_epi32(127)), 23));
  };
  return {_mm256_mul_ps(a.low, power(n.low)), _mm256_mul_ps(a.high, power(n.high))};
}
inline float sum(F32 a) {
  const __m256 eight = _mm256_add_ps(a.low, a.high);
  __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  four = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(four, _mm_shuffle_ps(four, four, 1)));
}
inline float max_of(F32 a) {
  const __m256 eight = _mm256_max_ps(a.low, a.high);
  __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  four = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(four, _mm_shuffle_ps(four, four, 1)));
}
// The largest |x| of both; not finite when one of them is not: as bits, infinities and NaN are
// above every number.
inline float largest_magnitude(F32 a, F32 b) {
  const __m256 magnitude = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
  const auto bits = [&](__m256 x) { return _mm256_castps_si256(_mm256_and_ps(x, magnitude)); };
  const __m256i eight = _mm256_max_epi32(_mm256_max_epi32(bits(a.low), bits(a.high)),
                                         _mm256_max_epi32(bits(b.low), bits(b.high)));
  __m128i four = _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  return _mm_cvtss_f32(_mm_castsi128_ps(_mm_max_epi32(four, _mm_shuffle_epi32(four, 0xb1))));
}
inline F32 keep_first(F32 a, int n, float x) {
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256 low = _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(n), lanes));
  const __m256 high = _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(n - 8), lanes));
  const __m256 other = _mm256_set1_ps(x);
  return {_mm256_blendv_ps(other, a.low, low), _mm256_blendv_ps(other, a.high, high)};
}
// Lanes below x become 0.
inline F32 zero_below(F32 a, float x) {
  const __m256 bound = _mm256_set1_ps(x);
  return {_mm256_and_ps(a.low, _mm256_cmp_ps(a.low, bound, _CMP_GE_OQ)),
          _mm256_and_ps(a.high, _mm256_cmp_ps(a.high, bound, _CMP_GE_OQ))};
}
// Bit i: lane i is at least x.
inline uint32_t at_least(F32 a, float x) {
  const __m256 bound = _mm256_set1_ps(x);
  const int low = _mm256_movemask_ps(_mm256_cmp_ps(a.low, bound, _CMP_GE_OQ));
  const int high = _mm256_movemask_ps(_mm256_cmp_ps(a.high, bound, _CMP_GE_OQ));
  return static_cast<uint32_t>(low | high << 8);
}
inline I32 splat_int(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
inline I32 add_int(I32 a, I32 b) {
  return {_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)};
}
inline int32_t sum_int(I32 a) {
  const __m256i eight = _mm256_add_epi32(a.low, a.high);
  __m128i four =
      _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(four, _mm_shuffle_epi32(four, 0xb1)));
}
inline void store_bytes(int8_t* p, I32 a) {
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(a.low, a.high), 0xd8);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                   _mm_packs_epi16(_mm256_castsi256_si128(words),
                                   _mm256_extracti128_si256(words, 1)));
}
inline I32 widen_bytes(const int8_t* p) {
  const auto* q = reinterpret_cast<const __m128i*>(p);
  return {_mm256_cvtepi8_epi32(_mm_loadl_epi64(q)),
          _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p + 8)))};
}
inline Bytes load_bytes(const uint8_t* p) {
  const auto* q = reinterpret_cast<const __m256i*>(p);
  return {_mm256_loadu_si256(q), _mm256_loadu_si256(q + 1)};
}
inline Bytes low_nibbles(Bytes b) {
  const __m256i mask = _mm256_set1_epi8(15);
  return {_mm256_and_si256(b.low, mask), _mm256_and_si256(b.high, mask)};
}
inline Bytes high_nibbles(Bytes b) {
  const __m256i mask = _mm256_set1_epi8(15);
  return {_mm256_and_si256(_mm256_srli_epi16(b.low, 4), mask),
          _mm256_and_si256(_mm256_srli_epi16(b.high, 4), mask)};
}

template <int kBits>
inline void set_high_bits(Bytes* part, Bytes high) {
  const __m256i mask = _mm256_set1_epi8(((1 << kBits) - 1) << 4);
  for (int p = 0; p < 8 / kBits; p++) {
    const int left = 4 - kBits * p;
    const auto set = [&](__m256i nibbles, __m256i bits) {
      bits = left >= 0 ? _mm256_slli_epi16(bits, left) : _mm256_srli_epi16(bits, -left);
      return _mm256_or_si256(nibbles, _mm256_and_si256(bits, mask));
    };
    part[p] = {set(part[p].low, high.low), set(part[p].high, high.high)};
  }
}
inline F32 first_halves(Bytes b) {
  return {_mm256_castsi256_ps(_mm256_slli_epi32(b.low, 16)),
          _mm256_castsi256_ps(_mm256_slli_epi32(b.high, 16))};
}
inline F32 second_halves(Bytes b) {
  const __m256i mask = _mm256_set1_epi32(~0xffff);
  return {_mm256_castsi256_ps(_mm256_and_si256(b.low, mask)),
          _mm256_castsi256_ps(_mm256_and_si256(b.high, mask))};
}

inline __m256i splat_four(const int8_t* x) {
  int32_t four;
  __builtin_memcpy(&four, x, 4);
  return _mm256_set1_epi32(four);
}

#if defined(__AVXVNNI__)
inline I32 dot7(I32 acc, Bytes w, const int8_t* x) {
  const __m256i v = splat_four(x);
  return {_mm256_dpbusd_avx_epi32(acc.low, w.low, v), _mm256_dpbusd_avx_epi32(acc.high, w.high, v)};
}
inline I32 dot8(I32 acc, Bytes w, const int8_t* x) { return dot7(acc, w, x); }
#else
// Bytes up to 127: two products fit into 16 bits.
inline I32 dot7(I32 acc, Bytes w, const int8_t* x) {
  const __m256i v = splat_four(x);
  const __m256i ones = _mm256_set1_epi16(1);
  const auto dot = [&](__m256i a, __m256i b) {
    return _mm256_add_epi32(a, _mm256_madd_epi16(_mm256_maddubs_epi16(b, v), ones));
  };
  return {dot(acc.low, w.low), dot(acc.high, w.high)};
}
// Bytes up to 255: even and odd bytes apart, so that no sum of products leaves 16 bits unseen.
inline I32 dot8(I32 acc, Bytes w, const int8_t* x) {
  const __m256i v = splat_four(x);
  const __m256i v_even = _mm256_srai_epi16(_mm256_slli_epi16(v, 8), 8);
  const __m256i v_odd = _mm256_srai_epi16(v, 8);
  const __m256i mask = _mm256_set1_epi16(255);
  const auto dot = [&](__m256i a, __m256i b) {
    a = _mm256_add_epi32(a, _mm256_madd_epi16(_mm256_and_si256(b, mask), v_even));
    return _mm256_add_epi32(a, _mm256_madd_epi16(_mm256_srli_epi16(b, 8), v_odd));
  };
  return {dot(acc.low, w.low), dot(acc.high, w.high)};
}
#endif
inline void prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }

}  // namespace
}  // namespace edgelora::simd
