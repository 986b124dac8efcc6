// The kinds of tensors in a packed file. Weight matrices lie in blocks of 16 output rows that run
// over the groups of 32 inputs. The bytes of a group:
//   Q4 (320): half scale[16], half minimum[16], 4 x 64 bytes of nibbles; byte (row, j) of part p
//     holds input 8p + j in its low and input 8p + 4 + j in its high nibble (j < 4).
//     weight = scale * nibble + minimum
//   Q8 (544): half scale[16], 8 x 64 bytes; byte (row, j) of part p is input 4p + j.
//     weight = scale * (byte - 128)
//   S4, S5, S6 (288, 352, 416): half scale[16], nibbles as of Q4, then what a nibble does not hold
//     of the inputs 4p + j: for S5 64 bytes, bit p of byte (row, j); for S6 twice 64 bytes, the bits
//     2 (p % 4) and the next of byte (row, j) of half p / 4.
//     weight = scale * (number - 2^(bits - 1))
//   BF16 (1024): 16 x 64 bytes; of the 2 halves of row r in part p the first is input 2p.
// A table of vectors that are looked up lies row by row instead, in groups of 34 bytes:
//   ROWS8: half scale, 32 signed bytes. value = scale * byte
#pragma once

#include <cstddef>
#include <cstdint>

namespace edgelora {

constexpr int kGroup = 32;
constexpr int kLanes = 16;

enum class TensorKind : uint32_t {
  kAbsent = 0,
  kF32 = 1,
  kQ4 = 2,
  kQ8 = 3,
  kS4 = 4,
  kS5 = 5,
  kS6 = 6,
  kBf16 = 7,
  kRows8 = 8,
};

constexpr size_t kScaleBytes = 2 * kLanes;
constexpr size_t kNibbleBytes = kLanes * kGroup / 2;
constexpr size_t kQ4GroupBytes = 2 * kScaleBytes + kNibbleBytes;
constexpr size_t kQ8GroupBytes = kScaleBytes + 2 * kNibbleBytes;
constexpr size_t kBf16GroupBytes = 2 * kLanes * kGroup;
constexpr size_t kRowGroupBytes = 2 + kGroup;
constexpr size_t symmetric_group_bytes(int bits) {
  return kScaleBytes + static_cast<size_t>(bits) * kLanes * kGroup / 8;
}

// Bytes of a group of a weight matrix; 0 for what is none.
constexpr size_t group_bytes(TensorKind kind) {
  switch (kind) {
    case TensorKind::kQ4:
      return kQ4GroupBytes;
    case TensorKind::kQ8:
      return kQ8GroupBytes;
    case TensorKind::kS4:
    case TensorKind::kS5:
    case TensorKind::kS6:
      return symmetric_group_bytes(static_cast<int>(kind));
    case TensorKind::kBf16:
      return kBf16GroupBytes;
    default:
      return 0;
  }
}

// Writes one row of weights, of a matrix of any kind, as floats. `block`: the row's block, its
// `groups` groups; `lane`: the row's place in it.
void dequantise_row(TensorKind kind, const uint8_t* block, int lane, int groups, float* out);

}  // namespace edgelora
