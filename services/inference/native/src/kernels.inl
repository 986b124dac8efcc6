// The kernels, written once over the lanes of `edgelora::simd`. Included by one source file for
// each instruction set, after its simd header.
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "kernels.h"

namespace edgelora {
namespace {

using namespace simd;

// Inverse of a quantisation step. Groups that are all but zero become zeros: 127 divided by the
// smallest numbers would not be finite.
float inverse_step(float largest) { return largest > 1e-35f ? 127.0f / largest : 0.0f; }

// Bytes cannot tell of values that are not finite: the scale does, and so every product.
void set_to_nan(const QuantisedRows& rows, size_t group) {
  std::memset(rows.values + group * kGroup, 0, kGroup);
  rows.scales[group] = std::numeric_limits<float>::quiet_NaN();
  rows.scaled_sums[group] = std::numeric_limits<float>::quiet_NaN();
  rows.sums[group] = 0;
}

void quantise(const float* x, int count, const QuantisedRows& rows, int row, int first_group) {
  for (int g = 0; g < count / kGroup; g++) {
    const size_t at = rows.at(row, first_group + g);
    const F32 a = load(x + g * kGroup);
    const F32 b = load(x + g * kGroup + kLanes);
    if (rows.floats != nullptr) {
      store(rows.floats + at * kGroup, a);
      store(rows.floats + at * kGroup + kLanes, b);
    }
    const float largest = largest_magnitude(a, b);
    if (!std::isfinite(largest)) {
      set_to_nan(rows, at);
      continue;
    }
    const float scale = largest / 127.0f;
    const F32 inverse = splat(inverse_step(largest));
    const I32 qa = round_to_int(mul(a, inverse));
    const I32 qb = round_to_int(mul(b, inverse));
    store_bytes(rows.values + at * kGroup, qa);
    store_bytes(rows.values + at * kGroup + kLanes, qb);
    const int32_t total = sum_int(add_int(qa, qb));
    rows.scales[at] = scale;
    rows.scaled_sums[at] = scale * static_cast<float>(total);
    rows.sums[at] = total;
  }
}

// How far ahead memory is asked for weights, which hides its delay.
constexpr size_t kBytesAhead = 6144;

template <size_t kBytes>
void prefetch_group(const uint8_t* w) {
  for (size_t line = 0; line < kBytes; line += 64) prefetch(w + kBytesAhead / kBytes * kBytes + line);
}

// Eight times four inputs of each row, from nibbles.
void unpack_nibbles(const uint8_t* w, Bytes* part) {
  for (int p = 0; p < 4; p++) {
    const Bytes packed = load_bytes(w + 64 * p);
    part[2 * p] = low_nibbles(packed);
    part[2 * p + 1] = high_nibbles(packed);
  }
}

// A tile of M rows that lie together. `is_first`: nobody has read the block's weights just before.
template <int M>
struct Q4 {
  static void run(const uint8_t* w, const QuantisedRows& rows, int begin, bool is_first, float* out,
                  size_t stride) {
    size_t at = rows.at(begin, 0);
    F32 acc[M];
    for (int m = 0; m < M; m++) acc[m] = zero();
    for (int g = 0; g < rows.groups; g++, w += kQ4GroupBytes, at += kRowTile) {
      if (is_first) prefetch_group<kQ4GroupBytes>(w);
      const F32 scale = load_half(reinterpret_cast<const uint16_t*>(w));
      const F32 minimum = load_half(reinterpret_cast<const uint16_t*>(w) + kLanes);
      Bytes part[8];
      unpack_nibbles(w + 2 * kScaleBytes, part);
      const int8_t* x = rows.values + at * kGroup;
      for (int m = 0; m < M; m++, x += kGroup) {
        I32 even = splat_int(0);
        I32 odd = splat_int(0);
        for (int p = 0; p < 8; p += 2) {
          even = dot7(even, part[p], x + 4 * p);
          odd = dot7(odd, part[p + 1], x + 4 * p + 4);
        }
        const float x_scale = rows.scales[at + static_cast<size_t>(m)];
        const float x_sum = rows.scaled_sums[at + static_cast<size_t>(m)];
        acc[m] = fma(to_float(add_int(even, odd)), mul(scale, splat(x_scale)), acc[m]);
        acc[m] = fma(minimum, splat(x_sum), acc[m]);
      }
    }
    for (int m = 0; m < M; m++) store(out + m * stride, acc[m]);
  }
};

// Numbers around zero: what is stored has a bias that makes it positive.
struct EightBits {
  static constexpr size_t kBytes = kQ8GroupBytes;
  static constexpr int32_t kBias = kByteBias;
  static void unpack(const uint8_t* w, Bytes* part) {
    for (int p = 0; p < 8; p++) part[p] = load_bytes(w + 64 * p);
  }
  static I32 dot(I32 acc, Bytes w, const int8_t* x) { return dot8(acc, w, x); }
};
template <int kBits>
struct FewBits {
  static constexpr size_t kBytes = symmetric_group_bytes(kBits);
  static constexpr int32_t kBias = 1 << (kBits - 1);
  static void unpack(const uint8_t* w, Bytes* part) {
    unpack_nibbles(w, part);
    if constexpr (kBits == 5) set_high_bits<1>(part, load_bytes(w + kNibbleBytes));
    if constexpr (kBits == 6) {
      set_high_bits<2>(part, load_bytes(w + kNibbleBytes));
      set_high_bits<2>(part + 4, load_bytes(w + kNibbleBytes + 64));
    }
  }
  static I32 dot(I32 acc, Bytes w, const int8_t* x) { return dot7(acc, w, x); }
};

template <class Numbers, int M>
struct Symmetric {
  static void run(const uint8_t* w, const QuantisedRows& rows, int begin, bool is_first, float* out,
                  size_t stride) {
    size_t at = rows.at(begin, 0);
    F32 acc[M];
    for (int m = 0; m < M; m++) acc[m] = zero();
    for (int g = 0; g < rows.groups; g++, w += Numbers::kBytes, at += kRowTile) {
      if (is_first) prefetch_group<Numbers::kBytes>(w);
      const F32 scale = load_half(reinterpret_cast<const uint16_t*>(w));
      Bytes part[8];
      Numbers::unpack(w + kScaleBytes, part);
      const int8_t* x = rows.values + at * kGroup;
      for (int m = 0; m < M; m++, x += kGroup) {
        I32 even = splat_int(-Numbers::kBias * rows.sums[at + static_cast<size_t>(m)]);
        I32 odd = splat_int(0);
        for (int p = 0; p < 8; p += 2) {
          even = Numbers::dot(even, part[p], x + 4 * p);
          odd = Numbers::dot(odd, part[p + 1], x + 4 * p + 4);
        }
        const float x_scale = rows.scales[at + static_cast<size_t>(m)];
        acc[m] = fma(to_float(add_int(even, odd)), mul(scale, splat(x_scale)), acc[m]);
      }
    }
    for (int m = 0; m < M; m++) store(out + m * stride, acc[m]);
  }
};
template <int M>
using Q8 = Symmetric<EightBits, M>;
template <int M>
using S4 = Symmetric<FewBits<4>, M>;
template <int M>
using S5 = Symmetric<FewBits<5>, M>;
template <int M>
using S6 = Symmetric<FewBits<6>, M>;

// Two sums for each row, over the inputs of even and of odd number.
template <int M>
struct Bf16 {
  static void run(const uint8_t* w, const QuantisedRows& rows, int begin, bool is_first, float* out,
                  size_t stride) {
    const float* x = rows.floats + rows.at(begin, 0) * kGroup;
    F32 even[M];
    F32 odd[M];
    for (int m = 0; m < M; m++) even[m] = odd[m] = zero();
    for (int g = 0; g < rows.groups; g++, w += kBf16GroupBytes, x += kRowTile * kGroup) {
      if (is_first) prefetch_group<kBf16GroupBytes>(w);
      for (int p = 0; p < kGroup / 2; p++) {
        const Bytes pairs = load_bytes(w + 64 * p);
        const F32 first = first_halves(pairs);
        const F32 second = second_halves(pairs);
        for (int m = 0; m < M; m++) {
          even[m] = fma(first, splat(x[m * kGroup + 2 * p]), even[m]);
          odd[m] = fma(second, splat(x[m * kGroup + 2 * p + 1]), odd[m]);
        }
      }
    }
    for (int m = 0; m < M; m++) store(out + m * stride, add(even[m], odd[m]));
  }
};

template <template <int> class Tile, int M>
void run_tile(const uint8_t* w, const QuantisedRows& rows, int begin, int count, bool is_first,
              float* out, size_t stride) {
  if (count == M) {
    Tile<M>::run(w, rows, begin, is_first, out, stride);
  } else if constexpr (M > 1) {
    run_tile<Tile, M - 1>(w, rows, begin, count, is_first, out, stride);
  }
}
template <template <int> class Tile, int kRows = kTileRows>
void multiply(const uint8_t* block, const QuantisedRows& rows, int begin, int end, float* out,
              size_t stride) {
  static_assert(kRowTile % kRows == 0, "a tile's rows lie together");
  for (int row = begin; row < end;) {
    const int room = kRows - row % kRows;
    const int count = end - row < room ? end - row : room;
    run_tile<Tile, kRows>(block, rows, row, count, row == begin, out, stride);
    row += count;
    out += static_cast<size_t>(count) * stride;
  }
}

float rms_norm(const float* x, const float* weight, int n, float epsilon, float* out) {
  F32 squares = zero();
  for (int i = 0; i < n; i += kLanes) {
    const F32 v = load(x + i);
    squares = fma(v, v, squares);
  }
  const float mean = sum(squares) / static_cast<float>(n);
  const F32 factor = splat(1.0f / std::sqrt(mean + epsilon));
  for (int i = 0; i < n; i += kLanes)
    store(out + i, mul(mul(load(x + i), factor), load(weight + i)));
  return mean;
}

void quantise_lora(const float* x, int count, float factor, LoraInput* out) {
  const F32 v = keep_first(mul(load(x), splat(factor)), count, 0.0f);
  const float largest = largest_magnitude(v, v);
  if (!std::isfinite(largest)) {
    *out = {{}, std::numeric_limits<float>::quiet_NaN(), 0};
    return;
  }
  const I32 q = round_to_int(mul(v, splat(inverse_step(largest))));
  store_bytes(out->values, q);
  out->scale = largest / 127.0f;
  out->sum = sum_int(q);
}

void expand(const uint8_t* blocks, int num_blocks, int rank, const LoraInput* x, float* y) {
  const int num_parts = (rank + 3) / 4;
  for (int b = 0; b < num_blocks; b++, y += kLanes) {
    const F32 scale = load_half(reinterpret_cast<const uint16_t*>(blocks));
    const uint8_t* w = blocks + 2 * kLanes;
    F32 acc = zero();
    for (int first = 0; first < num_parts; first += 4) {
      const LoraInput& in = x[first / 4];
      I32 even = splat_int(-kByteBias * in.sum);
      I32 odd = splat_int(0);
      const int count = num_parts - first < 4 ? num_parts - first : 4;
      for (int p = 0; p < count; p++, w += 64) {
        I32& part = p % 2 == 0 ? even : odd;
        part = dot8(part, load_bytes(w), in.values + 4 * p);
      }
      acc = fma(to_float(add_int(even, odd)), splat(in.scale), acc);
    }
    store(y, fma(acc, scale, load(y)));
    blocks = w;
  }
}

// e^x by range reduction to [-ln2/2, ln2/2] and a Taylor polynomial of degree 6; the relative
// error is below 2e-7. Arguments below -87 give 0 within the smallest normal number. NaN stays NaN:
// min and max return their second operand when one is NaN.
F32 exp(F32 x) {
  x = min(splat(88.0f), max(splat(-87.0f), x));
  const I32 n = round_to_int(mul(x, splat(1.44269504f)));
  const F32 nf = to_float(n);
  F32 r = fma(nf, splat(-0.693359375f), x);
  r = fma(nf, splat(2.12194440e-4f), r);
  F32 p = splat(1.0f / 720.0f);
  p = fma(p, r, splat(1.0f / 120.0f));
  p = fma(p, r, splat(1.0f / 24.0f));
  p = fma(p, r, splat(1.0f / 6.0f));
  p = fma(p, r, splat(0.5f));
  p = fma(p, r, splat(1.0f));
  p = fma(p, r, splat(1.0f));
  return scale_by_power_of_two(p, n);
}

void silu_times(const float* gate, const float* up, int n, float* out) {
  for (int i = 0; i < n; i += kLanes) {
    const F32 g = load(gate + i);
    const F32 sigmoid = div(splat(1.0f), add(splat(1.0f), exp(sub(zero(), g))));
    store(out + i, mul(mul(g, sigmoid), load(up + i)));
  }
}

void add_rows(float* x, const float* y, int n) {
  for (int i = 0; i < n; i += kLanes) store(x + i, add(load(x + i), load(y + i)));
}

void layer_norm(float* x, const float* y, const float* weight, const float* bias, int n,
                float epsilon) {
  F32 total = zero();
  for (int i = 0; i < n; i += kLanes) {
    const F32 v = y == nullptr ? load(x + i) : add(load(x + i), load(y + i));
    store(x + i, v);
    total = add(total, v);
  }
  const auto count = static_cast<float>(n);
  const F32 mean = splat(sum(total) / count);
  F32 squares = zero();
  for (int i = 0; i < n; i += kLanes) {
    const F32 v = sub(load(x + i), mean);
    squares = fma(v, v, squares);
  }
  const F32 factor = splat(1.0f / std::sqrt(sum(squares) / count + epsilon));
  for (int i = 0; i < n; i += kLanes) {
    const F32 v = mul(sub(load(x + i), mean), factor);
    store(x + i, fma(v, load(weight + i), load(bias + i)));
  }
}

void scale(const float* x, const float* factors, int n, float* out) {
  for (int i = 0; i < n; i += kLanes) store(out + i, mul(load(x + i), load(factors + i)));
}

// erf as a quotient of polynomials within [-4, 4], beyond which it is 1 in single precision; the
// error is below 4e-7. NaN stays NaN, see exp.
F32 erf(F32 x) {
  x = min(splat(4.0f), max(splat(-4.0f), x));
  const F32 s = mul(x, x);
  F32 p = splat(-2.72614225801306e-10f);
  p = fma(p, s, splat(2.77068142495902e-08f));
  p = fma(p, s, splat(-2.10102402082508e-06f));
  p = fma(p, s, splat(-5.69250639462346e-05f));
  p = fma(p, s, splat(-7.34990630326855e-04f));
  p = fma(p, s, splat(-2.95459980854025e-03f));
  p = fma(p, s, splat(-1.60960333262415e-02f));
  F32 q = splat(-1.45660718464996e-05f);
  q = fma(q, s, splat(-2.13374055278905e-04f));
  q = fma(q, s, splat(-1.68282697438203e-03f));
  q = fma(q, s, splat(-7.37332916720468e-03f));
  q = fma(q, s, splat(-1.42647390514189e-02f));
  return div(mul(x, p), q);
}

void gelu(float* x, int n) {
  for (int i = 0; i < n; i += kLanes) {
    const F32 v = load(x + i);
    const F32 half = mul(v, splat(0.5f));
    store(x + i, fma(half, erf(mul(v, splat(0.70710678f))), half));
  }
}

void gelu_tanh(float* x, int n) {
  for (int i = 0; i < n; i += kLanes) {
    const F32 v = load(x + i);
    // 1 + tanh(u) = 2 / (1 + e^(-2 u)), with u = sqrt(2 / pi) * (v + 0.044715 v^3)
    const F32 cubic = fma(mul(mul(v, v), v), splat(0.044715f), v);
    const F32 e = exp(mul(cubic, splat(-1.59576912f)));
    store(x + i, div(v, add(splat(1.0f), e)));
  }
}

void tanh(float* x, int n) {
  for (int i = 0; i < n; i += kLanes) {
    const F32 e = exp(mul(load(x + i), splat(2.0f)));
    store(x + i, sub(splat(1.0f), div(splat(2.0f), add(splat(1.0f), e))));
  }
}

void store_halves(const float* x, int n, uint16_t* out) {
  for (int i = 0; i < n; i += kLanes) store_half(out + i, load(x + i));
}

float store_int8(const float* x, int n, int8_t* out) {
  float largest = 0.0f;
  for (int i = 0; i < n; i += kLanes) {
    const F32 v = load(x + i);
    const float own = largest_magnitude(v, v);
    largest = own <= largest ? largest : own;  // NaN stays
    if (!std::isfinite(largest)) {
      std::memset(out, 0, static_cast<size_t>(n));
      return std::numeric_limits<float>::quiet_NaN();
    }
  }
  const F32 inverse = splat(inverse_step(largest));
  for (int i = 0; i < n; i += kLanes)
    store_bytes(out + i, round_to_int(mul(load(x + i), inverse)));
  return largest / 127.0f;
}

// How keys and values are kept.
struct HalfKv {
  static constexpr bool kIsScaled = false;
  static constexpr size_t kBytes = 2;
  static F32 load16(const uint8_t* p) { return load_half(reinterpret_cast<const uint16_t*>(p)); }
};
struct Int8Kv {
  static constexpr bool kIsScaled = true;
  static constexpr size_t kBytes = 1;
  static F32 load16(const uint8_t* p) {
    return to_float(widen_bytes(reinterpret_cast<const int8_t*>(p)));
  }
};
struct FloatKv {
  static constexpr bool kIsScaled = false;
  static constexpr size_t kBytes = 4;
  static F32 load16(const uint8_t* p) { return load(reinterpret_cast<const float*>(p)); }
};
// The scales of a block's tokens stand behind its bytes.
F32 token_scales(const uint8_t* block, int head_size) {
  return load(reinterpret_cast<const float*>(block + head_size * kBlockTokens));
}

template <class Kv, int N>
void score_block(const AttentionTile& tile, const uint8_t* keys, int at) {
  F32 acc[N];
  for (int q = 0; q < N; q++) acc[q] = zero();
  for (int d = 0; d < tile.head_size; d++) {
    const F32 k = Kv::load16(keys + d * kBlockTokens * Kv::kBytes);
    for (int q = 0; q < N; q++) acc[q] = fma(k, splat(tile.queries[q][d]), acc[q]);
  }
  for (int q = 0; q < N; q++) {
    if constexpr (Kv::kIsScaled) acc[q] = mul(acc[q], token_scales(keys, tile.head_size));
    store(tile.scores + q * tile.score_stride + at, acc[q]);
  }
}

template <class Kv, int N>
void weigh_values(const AttentionTile& tile, int num_blocks, int longest, const float* inverse) {
  constexpr int kWidth = 2 * kLanes;
  int shortest = longest;
  for (int q = 0; q < N; q++) shortest = tile.num_keys[q] < shortest ? tile.num_keys[q] : shortest;
  for (int d = 0; d < tile.head_size; d += kWidth) {
    F32 low[N];
    F32 high[N];
    for (int q = 0; q < N; q++) low[q] = high[q] = zero();
    for (int b = 0; b < num_blocks; b++) {
      const uint8_t* values = tile.value_blocks[b] + d * Kv::kBytes;
      const int first = b * kBlockTokens;
      const int count = longest - first < kBlockTokens ? longest - first : kBlockTokens;
      const auto add_token = [&](int t, auto is_read_by_all) {
        const uint8_t* value = values + static_cast<size_t>(t * tile.head_size) * Kv::kBytes;
        const F32 v0 = Kv::load16(value);
        const F32 v1 = Kv::load16(value + kLanes * Kv::kBytes);
        for (int q = 0; q < N; q++) {
          // A later token's value may be infinite, and no weight of 0 makes that nothing.
          if constexpr (!decltype(is_read_by_all)::value)
            if (first + t >= tile.num_keys[q]) continue;
          const F32 p = splat(tile.scores[q * tile.score_stride + first + t]);
          low[q] = fma(p, v0, low[q]);
          high[q] = fma(p, v1, high[q]);
        }
      };
      int t = 0;
      for (; t < count && first + t < shortest; t++) add_token(t, std::true_type{});
      for (; t < count; t++) add_token(t, std::false_type{});
    }
    for (int q = 0; q < N; q++) {
      store(tile.outputs[q] + d, mul(low[q], splat(inverse[q])));
      store(tile.outputs[q] + d + kLanes, mul(high[q], splat(inverse[q])));
    }
  }
}

template <class Kv, int N>
void attend_tile(const AttentionTile& tile) {
  int longest = 0;
  for (int q = 0; q < N; q++) longest = tile.num_keys[q] > longest ? tile.num_keys[q] : longest;
  const int num_blocks = (longest + kBlockTokens - 1) / kBlockTokens;
  for (int b = 0; b < num_blocks; b++) 
    score_block<Kv, N>(tile, tile.key_blocks[b], b * kBlockTokens);
  float inverse[N];
  for (int q = 0; q < N; q++) {
    float* scores = tile.scores + q * tile.score_stride;
    // Keys beyond the query's own end weigh exactly nothing, so a tile's company changes no bit.
    F32 largest = splat(-std::numeric_limits<float>::infinity());
    for (int b = 0; b < num_blocks; b++) {
      const int own = tile.num_keys[q] - b * kBlockTokens;
      F32 s = load(scores + b * kBlockTokens);
      if (own < kBlockTokens)
        s = keep_first(s, own > 0 ? own : 0, -std::numeric_limits<float>::infinity());
      store(scores + b * kBlockTokens, s);
      largest = max(largest, s);
    }
    const F32 top = splat(max_of(largest));
    F32 total = zero();
    for (int b = 0; b < num_blocks; b++) {
      const int own = tile.num_keys[q] - b * kBlockTokens;
      F32 p = exp(sub(load(scores + b * kBlockTokens), top));
      if (own < kBlockTokens) p = keep_first(p, own > 0 ? own : 0, 0.0f);
      total = add(total, p);
      if constexpr (Kv::kIsScaled) {
        p = mul(p, token_scales(tile.value_blocks[b], tile.head_size));
        // The scales of places without a token may be anything.
        if (own < kBlockTokens) p = keep_first(p, own > 0 ? own : 0, 0.0f);
      }
      store(scores + b * kBlockTokens, p);
    }
    inverse[q] = 1.0f / sum(total);
  }
  weigh_values<Kv, N>(tile, num_blocks, longest, inverse);
}

template <class Kv, int N>
void attend_some(const AttentionTile& tile) {
  if (tile.n == N) {
    attend_tile<Kv, N>(tile);
  } else if constexpr (N > 1) {
    attend_some<Kv, N - 1>(tile);
  }
}

template <class Kv>
void attend(const AttentionTile& tile) {
  attend_some<Kv, kQueryTile>(tile);
}

F32 load_first(const float* x, int n, float fill) {
  if (n >= kLanes) return load(x);
  float lanes[kLanes];
  for (int i = 0; i < kLanes; i++) lanes[i] = i < n ? x[i] : fill;
  return load(lanes);
}

bool scan(const float* x, int n, float* maxima) {
  F32 finite = zero();  // 0 times what is not finite is NaN
  for (int begin = 0; begin < n; begin += kVocabularyChunk, maxima += kLanes) {
    const int end = begin + kVocabularyChunk < n ? begin + kVocabularyChunk : n;
    F32 largest = splat(-std::numeric_limits<float>::infinity());
    for (int i = begin; i < end; i += kLanes) {
      const F32 v = load_first(x + i, end - i, x[begin]);
      largest = max(largest, v);
      finite = fma(v, zero(), finite);
    }
    store(maxima, largest);
  }
  return sum(finite) == 0.0f;
}

void weigh(const float* x, int n, float top, float factor, float* weights, float* sums) {
  for (int begin = 0; begin < n; begin += kVocabularyChunk, sums++) {
    const int end = begin + kVocabularyChunk < n ? begin + kVocabularyChunk : n;
    F32 total = zero();
    for (int i = begin; i < end; i += kLanes) {
      const F32 v = load_first(x + i, end - i, top);
      F32 weight = exp(mul(sub(v, splat(top)), splat(factor)));
      if (end - i < kLanes) weight = keep_first(weight, end - i, 0.0f);
      store(weights + i, weight);
      total = add(total, weight);
    }
    *sums = sum(total);
  }
}

int collect(const float* x, int n, float least, int limit, int32_t* indices) {
  int count = 0;
  for (int i = 0; i < n && count <= limit; i += kLanes) {
    const F32 v = load_first(x + i, n - i, std::numeric_limits<float>::quiet_NaN());
    for (uint32_t lanes = at_least(v, least); lanes != 0; lanes &= lanes - 1)
      indices[count++] = i + __builtin_ctz(lanes);
  }
  return count <= limit ? count : limit + 1;
}

void cut(float* weights, int n, float least, float* sums) {
  for (int begin = 0; begin < n; begin += kVocabularyChunk, sums++) {
    const int end = begin + kVocabularyChunk < n ? begin + kVocabularyChunk : n;
    F32 total = zero();
    for (int i = begin; i < end; i += kLanes) {
      const F32 weight = zero_below(load(weights + i), least);
      store(weights + i, weight);
      total = add(total, weight);
    }
    *sums = sum(total);
  }
}

constexpr Kernels table(const char* name) {
  return Kernels{name,
                 kQueryTile,
                 quantise,
                 multiply<Q4>,
                 multiply<Q8>,
                 multiply<S4>,
                 multiply<S5>,
                 multiply<S6>,
                 multiply<Bf16, kFloatTileRows>,
                 rms_norm,
                 quantise_lora,
                 expand,
                 silu_times,
                 add_rows,
                 layer_norm,
                 scale,
                 gelu,
                 gelu_tanh,
                 tanh,
                 attend<HalfKv>,
                 attend<Int8Kv>,
                 attend<FloatKv>,
                 store_halves,
                 store_int8,
                 scan,
                 weigh,
                 collect,
                 cut};
}

}  // namespace
}  // namespace edgelora
