// Sixteen lanes in four NEON registers; dot products by the ARMv8.2 dot product extension.
#pragma once

#include <arm_neon.h>

#include <cstdint>
#include <cstring>
#include <initializer_list>

namespace edgelora::simd {
// Every source file has its own, since each is compiled for another instruction set.
namespace {

struct F32 {
  float32x4_t part[4];
};
struct I32 {
  int32x4_t part[4];
};
struct Bytes {  // 16 rows x 4 bytes
  uint8x16_t part[4];
};

constexpr int kTileRows = 4;
constexpr int kFloatTileRows = 2;
constexpr int kQueryTile = 3;
// dot8 takes the bias off the bytes itself, since the instruction multiplies signed bytes.
constexpr int32_t kByteBias = 0;

template <typename F>
inline F32 map(F f) {
  return {{f(0), f(1), f(2), f(3)}};
}
inline F32 splat(float x) {
  return map([&](int) { return vdupq_n_f32(x); });
}
inline F32 zero() { return splat(0.0f); }
inline F32 load(const float* p) {
  return map([&](int i) { return vld1q_f32(p + 4 * i); });
}
inline void store(float* p, const F32& v) {
  for (int i = 0; i < 4; i++) vst1q_f32(p + 4 * i, v.part[i]);
}
inline F32 load_half(const uint16_t* p) {
  return map([&](int i) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p + 4 * i))); });
}
inline void store_half(uint16_t* p, const F32& v) {
  for (int i = 0; i < 4; i++) vst1_u16(p + 4 * i, vreinterpret_u16_f16(vcvt_f16_f32(v.part[i])));
}
inline F32 add(const F32& a, const F32& b) {
  return map([&](int i) { return vaddq_f32(a.part[i], b.part[i]); });
}
inline F32 sub(const F32& a, const F32& b) {
  return map([&](int i) { return vsubq_f32(a.part[i], b.part[i]); });
}
inline F32 mul(const F32& a, const F32& b) {
  return map([&](int i) { return vmulq_f32(a.part[i], b.part[i]); });
}
inline F32 div(const F32& a, const F32& b) {
  return map([&](int i) { return vdivq_f32(a.part[i], b.part[i]); });
}
inline F32 fma(const F32& a, const F32& b, const F32& c) {
  return map([&](int i) { return vfmaq_f32(c.part[i], a.part[i], b.part[i]); });
}
inline F32 max(const F32& a, const F32& b) {
  return map([&](int i) { return vmaxq_f32(a.part[i], b.part[i]); });
}
inline F32 min(const F32& a, const F32& b) {
  return map([&](int i) { return vminq_f32(a.part[i], b.part[i]); });
}
inline F32 to_float(const I32& a) {
  return map([&](int i) { return vcvtq_f32_s32(a.part[i]); });
}
inline I32 round_to_int(const F32& a) {
  return {{vcvtnq_s32_f32(a.part[0]), vcvtnq_s32_f32(a.part[1]), vcvtnq_s32_f32(a.part[2]),
           vcvtnq_s32_f32(a.part[3])}};
}
// n within -126 .. 127.
inline F32 scale_by_power_of_two(const F32& a, const I32& n) {
  return map([&](int i) {
    const int32x4_t bits = vshlq_n_s32(vaddq_s32(n.part[i], vdupq_n_s32(127)), 23);
    return vmulq_f32(a.part[i], vreinterpretq_f32_s32(bits));
  });
}
inline float sum(const F32& a) {
  const float32x4_t low = vaddq_f32(a.part[0], a.part[2]);
  const float32x4_t four = vaddq_f32(low, vaddq_f32(a.part[1], a.part[3]));
  const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
  return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}
inline float max_of(const F32& a) {
  return vmaxvq_f32(
      vmaxq_f32(vmaxq_f32(a.part[0], a.part[1]), vmaxq_f32(a.part[2], a.part[3])));
}
// The largest |x| of both; not finite when one of them is not: as bits, infinities and NaN are
// above every number.
inline float largest_magnitude(const F32& a, const F32& b) {
  uint32x4_t largest = vdupq_n_u32(0);
  for (const F32* x : {&a, &b})
    for (const float32x4_t part : x->part)
      largest = vmaxq_u32(largest, vreinterpretq_u32_f32(vabsq_f32(part)));
  const uint32_t bits = vmaxvq_u32(largest);
  float magnitude;
  std::memcpy(&magnitude, &bits, sizeof magnitude);
  return magnitude;
}
inline F32 keep_first(const F32& a, int n, float x) {
  static const int32_t kLaneNumbers[4] = {0, 1, 2, 3};
  const int32x4_t lanes = vld1q_s32(kLaneNumbers);
  return map([&](int i) {
    const uint32x4_t keep = vcltq_s32(lanes, vdupq_n_s32(n - 4 * i));
    return vbslq_f32(keep, a.part[i], vdupq_n_f32(x));
  });
}
// Lanes below x become 0.
inline F32 zero_below(const F32& a, float x) {
  return map([&](int i) {
    return vbslq_f32(vcgeq_f32(a.part[i], vdupq_n_f32(x)), a.part[i], vdupq_n_f32(0.0f));
  });
}
// Bit i: lane i is at least x.
inline uint32_t at_least(const F32& a, float x) {
  static const uint32_t kBits[4] = {1, 2, 4, 8};
  const uint32x4_t bits = vld1q_u32(kBits);
  uint32_t lanes = 0;
  for (int i = 0; i < 4; i++)
    lanes |= vaddvq_u32(vandq_u32(vcgeq_f32(a.part[i], vdupq_n_f32(x)), bits)) << 4 * i;
  return lanes;
}
inline I32 splat_int(int32_t x) {
  const int32x4_t v = vdupq_n_s32(x);
  return {{v, v, v, v}};
}
inline I32 add_int(const I32& a, const I32& b) {
  I32 r;
  for (int i = 0; i < 4; i++) r.part[i] = vaddq_s32(a.part[i], b.part[i]);
  return r;
}
inline int32_t sum_int(const I32& a) {
  return vaddvq_s32(vaddq_s32(vaddq_s32(a.part[0], a.part[1]), vaddq_s32(a.part[2], a.part[3])));
}
inline void store_bytes(int8_t* p, const I32& a) {
  const int16x8_t low = vcombine_s16(vqmovn_s32(a.part[0]), vqmovn_s32(a.part[1]));
  const int16x8_t high = vcombine_s16(vqmovn_s32(a.part[2]), vqmovn_s32(a.part[3]));
  vst1q_s8(p, vcombine_s8(vqmovn_s16(low), vqmovn_s16(high)));
}
inline I32 widen_bytes(const int8_t* p) {
  const int8x16_t bytes = vld1q_s8(p);
  const int16x8_t low = vmovl_s8(vget_low_s8(bytes));
  const int16x8_t high = vmovl_s8(vget_high_s8(bytes));
  return {{vmovl_s16(vget_low_s16(low)), vmovl_s16(vget_high_s16(low)),
           vmovl_s16(vget_low_s16(high)), vmovl_s16(vget_high_s16(high))}};
}
inline Bytes load_bytes(const uint8_t* p) {
  return {{vld1q_u8(p), vld1q_u8(p + 16), vld1q_u8(p + 32), vld1q_u8(p + 48)}};
}
inline Bytes low_nibbles(const Bytes& b) {
  Bytes r;
  for (int i = 0; i < 4; i++) r.part[i] = vandq_u8(b.part[i], vdupq_n_u8(15));
  return r;
}
inline Bytes high_nibbles(const Bytes& b) {
  Bytes r;
  for (int i = 0; i < 4; i++) r.part[i] = vshrq_n_u8(b.part[i], 4);
  return r;
}
template <int kBits>
inline void set_high_bits(Bytes* part, const Bytes& high) {
  const uint8x16_t mask = vdupq_n_u8(((1 << kBits) - 1) << 4);
  for (int p = 0; p < 8 / kBits; p++) {
    const int8x16_t left = vdupq_n_s8(static_cast<int8_t>(4 - kBits * p));  // or right
    for (int i = 0; i < 4; i++)
      part[p].part[i] = vorrq_u8(part[p].part[i], vandq_u8(vshlq_u8(high.part[i], left), mask));
  }
}
inline F32 first_halves(const Bytes& b) {
  return map([&](int i) {
    return vreinterpretq_f32_u32(vshlq_n_u32(vreinterpretq_u32_u8(b.part[i]), 16));
  });
}
inline F32 second_halves(const Bytes& b) {
  return map([&](int i) {
    return vreinterpretq_f32_u32(
        vandq_u32(vreinterpretq_u32_u8(b.part[i]), vdupq_n_u32(0xffff0000u)));
  });
}
inline int8x16_t splat_four(const int8_t* x) {
  int32_t four;
  std::memcpy(&four, x, 4);
  return vreinterpretq_s8_s32(vdupq_n_s32(four));
}
inline I32 dot7(const I32& acc, const Bytes& w, const int8_t* x) {
  const int8x16_t v = splat_four(x);
  I32 r;
  for (int i = 0; i < 4; i++)
    r.part[i] = vdotq_s32(acc.part[i], vreinterpretq_s8_u8(w.part[i]), v);
  return r;
}
inline I32 dot8(const I32& acc, const Bytes& w, const int8_t* x) {
  const int8x16_t v = splat_four(x);
  I32 r;
  for (int i = 0; i < 4; i++) {
    const uint8x16_t without_bias = veorq_u8(w.part[i], vdupq_n_u8(128));
    r.part[i] = vdotq_s32(acc.part[i], vreinterpretq_s8_u8(without_bias), v);
  }
  return r;
}
inline void prefetch(const void* p) { __builtin_prefetch(p); }

}  // namespace
}  // namespace edgelora::simd
