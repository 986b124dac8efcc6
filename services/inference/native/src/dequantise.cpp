// One row of a weight matrix as floats, in plain C++: the embedding of a token.
#include <cstring>

#include "half.h"
#include "tensor_kind.h"

namespace edgelora {
namespace {

float half_at(const uint8_t* halves, int lane) {
  uint16_t half;
  std::memcpy(&half, halves + 2 * lane, sizeof half);
  return half_to_float(half);
}

// Where byte (lane, i % 4) of the part of input i begins, among parts of 64 bytes for each 4 inputs.
int place(int lane, int i) { return 64 * (i / 4) + 4 * lane + i % 4; }

int nibble(const uint8_t* nibbles, int lane, int i) {
  const uint8_t byte = nibbles[place(lane, i / 8 * 4 + i % 4)];
  return i % 8 < 4 ? byte & 15 : byte >> 4;
}

// The number of `bits` bits of input i.
int symmetric_number(int bits, const uint8_t* nibbles, int lane, int i) {
  const uint8_t* high = nibbles + kNibbleBytes + 4 * lane + i % 4;
  const int part = i / 4;
  const int low = nibble(nibbles, lane, i);
  if (bits == 5) return low | (*high >> part & 1) << 4;
  if (bits == 6) return low | (high[64 * (part / 4)] >> 2 * (part % 4) & 3) << 4;
  return low;
}

float bfloat16_at(const uint8_t* group, int lane, int i) {
  uint16_t upper;
  std::memcpy(&upper, group + 64 * (i / 2) + 4 * lane + 2 * (i % 2), sizeof upper);
  return bfloat16_to_float(upper);
}

void dequantise_group(TensorKind kind, const uint8_t* group, int lane, float* out) {
  const uint8_t* numbers = group + kScaleBytes;
  if (kind == TensorKind::kBf16) {
    for (int i = 0; i < kGroup; i++) out[i] = bfloat16_at(group, lane, i);
    return;
  }
  const float scale = half_at(group, lane);
  if (kind == TensorKind::kQ4) {
    const float minimum = half_at(numbers, lane);
    for (int i = 0; i < kGroup; i++)
      out[i] = scale * static_cast<float>(nibble(numbers + kScaleBytes, lane, i)) + minimum;
  } else if (kind == TensorKind::kQ8) {
    for (int i = 0; i < kGroup; i++)
      out[i] = scale * static_cast<float>(numbers[place(lane, i)] - 128);
  } else {
    const int bits = static_cast<int>(kind);
    for (int i = 0; i < kGroup; i++) {
      const int number = symmetric_number(bits, numbers, lane, i) - (1 << (bits - 1));
      out[i] = scale * static_cast<float>(number);
    }
  }
}

}  // namespace

void dequantise_row(TensorKind kind, const uint8_t* block, int lane, int groups, float* out) {
  for (int g = 0; g < groups; g++, block += group_bytes(kind), out += kGroup)
    dequantise_group(kind, block, lane, out);
}

}  // namespace edgelora
