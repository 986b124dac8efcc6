// Sixteen lanes in plain C++; the reference every other variant is held against.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>

#include "half.h"

namespace edgelora::simd {
// Every source file has its own, since each is compiled for another instruction set.
namespace {

struct F32 {
  float lane[16];
};
struct I32 {
  int32_t lane[16];
};
struct Bytes {
  uint8_t lane[16][4];
};

constexpr int kTileRows = 4;
constexpr int kFloatTileRows = 4;
constexpr int kQueryTile = 3;
constexpr int32_t kByteBias = 128;

template <typename F>
inline F32 map(F f) {
  F32 r;
  for (int i = 0; i < 16; i++) r.lane[i] = f(i);
  return r;
}
inline F32 splat(float x) {
  return map([&](int) { return x; });
}
inline F32 zero() { return splat(0.0f); }
inline F32 load(const float* p) {
  return map([&](int i) { return p[i]; });
}
inline void store(float* p, const F32& v) { std::memcpy(p, v.lane, sizeof v.lane); }

inline F32 load_half(const uint16_t* p) {
  return map([&](int i) { return half_to_float(p[i]); });
}
inline void store_half(uint16_t* p, const F32& v) {
  for (int i = 0; i < 16; i++) p[i] = float_to_half(v.lane[i]);
}
inline F32 add(const F32& a, const F32& b) {
  return map([&](int i) { return a.lane[i] + b.lane[i]; });
}
inline F32 sub(const F32& a, const F32& b) {
  return map([&](int i) { return a.lane[i] - b.lane[i]; });
}
inline F32 mul(const F32& a, const F32& b) {
  return map([&](int i) { return a.lane[i] * b.lane[i]; });
}
inline F32 div(const F32& a, const F32& b) {
  return map([&](int i) { return a.lane[i] / b.lane[i]; });
}
// Rounds once, as the instructions of the vector variants do: the results are the same bits.
inline F32 fma(const F32& a, const F32& b, const F32& c) {
  return map([&](int i) { return std::fma(a.lane[i], b.lane[i], c.lane[i]); });
}
inline F32 max(const F32& a, const F32& b) {
  return map([&](int i) { return a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]; });
}
inline F32 min(const F32& a, const F32& b) {
  return map([&](int i) { return a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]; });
}
inline F32 to_float(const I32& a) {
  return map([&](int i) { return static_cast<float>(a.lane[i]); });
}
inline I32 round_to_int(const F32& a) {
  I32 r;
  for (int i = 0; i < 16; i++) {
    const float x = std::nearbyint(a.lane[i]);
    // What no int32 holds becomes the smallest, as on x86.
    r.lane[i] = std::fabs(x) < 2147483648.0f ? static_cast<int32_t>(x) : INT32_MIN;
  }
  return r;
}
inline F32 scale_by_power_of_two(const F32& a, const I32& n) {
  return map([&](int i) { return std::ldexp(a.lane[i], n.lane[i]); });
}
// The same tree as the vector variants, so that sums agree.
inline float sum(const F32& a) {
  float t[16];
  std::memcpy(t, a.lane, sizeof t);
  for (int half = 8; half > 0; half /= 2)
    for (int i = 0; i < half; i++) t[i] += t[i + half];
  return t[0];
}
inline float max_of(const F32& a) {
  float m = a.lane[0];
  for (int i = 1; i < 16; i++) m = a.lane[i] > m ? a.lane[i] : m;
  return m;
}
// The largest |x| of both; not finite when one of them is not: as bits, infinities and NaN are
// above every number.
inline float largest_magnitude(const F32& a, const F32& b) {
  uint32_t largest = 0;
  for (const F32* x : {&a, &b}) {
    uint32_t bits[16];
    std::memcpy(bits, x->lane, sizeof bits);
    for (const uint32_t each : bits) largest = std::max(largest, each & 0x7fffffffu);
  }
  float magnitude;
  std::memcpy(&magnitude, &largest, sizeof magnitude);
  return magnitude;
}
inline F32 keep_first(const F32& a, int n, float x) {
  return map([&](int i) { return i < n ? a.lane[i] : x; });
}
// Lanes below x become 0.
inline F32 zero_below(const F32& a, float x) {
  return map([&](int i) { return a.lane[i] >= x ? a.lane[i] : 0.0f; });
}
// Bit i: lane i is at least x.
inline uint32_t at_least(const F32& a, float x) {
  uint32_t lanes = 0;
  for (int i = 0; i < 16; i++) lanes |= static_cast<uint32_t>(a.lane[i] >= x) << i;
  return lanes;
}
inline I32 splat_int(int32_t x) {
  I32 r;
  for (int32_t& lane : r.lane) lane = x;
  return r;
}
inline I32 add_int(const I32& a, const I32& b) {
  I32 r;
  for (int i = 0; i < 16; i++) r.lane[i] = a.lane[i] + b.lane[i];
  return r;
}
inline int32_t sum_int(const I32& a) {
  int32_t s = 0;
  for (const int32_t lane : a.lane) s += lane;
  return s;
}
inline void store_bytes(int8_t* p, const I32& a) {
  for (int i = 0; i < 16; i++) {
    const int32_t x = a.lane[i];
    p[i] = static_cast<int8_t>(x > 127 ? 127 : (x < -128 ? -128 : x));
  }
}
inline I32 widen_bytes(const int8_t* p) {
  I32 r;
  for (int i = 0; i < 16; i++) r.lane[i] = p[i];
  return r;
}
inline Bytes load_bytes(const uint8_t* p) {
  Bytes b;
  std::memcpy(b.lane, p, 64);
  return b;
}
inline Bytes low_nibbles(const Bytes& b) {
  Bytes r;
  for (int i = 0; i < 16; i++)
    for (int j = 0; j < 4; j++) r.lane[i][j] = b.lane[i][j] & 15;
  return r;
}
inline Bytes high_nibbles(const Bytes& b) {
  Bytes r;
  for (int i = 0; i < 16; i++)
    for (int j = 0; j < 4; j++) r.lane[i][j] = static_cast<uint8_t>(b.lane[i][j] >> 4);
  return r;
}
template <int kBits>
inline void set_high_bits(Bytes* part, const Bytes& high) {
  constexpr int kMask = (1 << kBits) - 1;
  for (int p = 0; p < 8 / kBits; p++)
    for (int i = 0; i < 16; i++)
      for (int j = 0; j < 4; j++)
        part[p].lane[i][j] = static_cast<uint8_t>(part[p].lane[i][j] |
                                                  (high.lane[i][j] >> kBits * p & kMask) << 4);
}
inline F32 first_halves(const Bytes& b) {
  return map([&](int i) {
    return bfloat16_to_float(static_cast<uint16_t>(b.lane[i][0] | b.lane[i][1] << 8));
  });
}
inline F32 second_halves(const Bytes& b) {
  return map([&](int i) {
    return bfloat16_to_float(static_cast<uint16_t>(b.lane[i][2] | b.lane[i][3] << 8));
  });
}
inline I32 dot7(const I32& acc, const Bytes& w, const int8_t* x) {
  I32 r;
  for (int i = 0; i < 16; i++) {
    int32_t s = acc.lane[i];
    for (int j = 0; j < 4; j++) s += static_cast<int32_t>(w.lane[i][j]) * x[j];
    r.lane[i] = s;
  }
  return r;
}
inline I32 dot8(const I32& acc, const Bytes& w, const int8_t* x) { return dot7(acc, w, x); }
inline void prefetch(const void*) {}

}  // namespace
}  // namespace edgelora::simd
