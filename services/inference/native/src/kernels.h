// The inner loops, one table for each instruction set.
//
// tensor_kind.h has the bytes of weight blocks.
// Activations are quantised to signed bytes for each row and group of 32; bfloat16 weights are
// multiplied with the activations as they are.
//
// Every sum runs in an order that depends only on the row itself, never on what else is in the
// batch: results of a row are the same bits alone and in any company.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor_kind.h"

namespace edgelora {

constexpr int kBlockTokens = 16;
constexpr int kVocabularyChunk = 1024;  // tokens whose largest logits, and weights, are kept together

constexpr int kRowTile = 8;
// Activations of one matrix. Eight rows lie together, group by group, so that the inner
// loops find them at fixed distances: [rows / 8][groups][8] of what is listed below.
struct QuantisedRows {
  int8_t* values;      // 32 bytes
  float* scales;
  float* scaled_sums;  // scale times the sum of the group's bytes
  int32_t* sums;
  int groups;
  float* floats = nullptr;  // 32, as they were; null where no matrix is bfloat16

  size_t at(int row, int group) const {
    return (static_cast<size_t>(row / kRowTile) * static_cast<size_t>(groups) +
            static_cast<size_t>(group)) * kRowTile + static_cast<size_t>(row % kRowTile);
  }
};

// Sixteen values of an adapter's first product, quantised to signed bytes: value = scale * byte.
struct LoraInput {
  int8_t values[kLanes];
  float scale;
  int32_t sum;  // of the bytes
};

// The keys, or the values, of one head in a block of 16 tokens: keys as [head_size][16], values as
// [16][head_size]. In half precision, or as signed bytes followed by one float scale for a token.
inline size_t kv_head_bytes(int head_size, bool is_int8) {
  const size_t count = static_cast<size_t>(head_size) * kBlockTokens;
  return is_int8 ? count + kBlockTokens * sizeof(float) : count * sizeof(uint16_t);
}

// Queries of one tile: each belongs to one sequence and reads the first `num_keys` keys.
struct AttentionTile {
  const float* const* queries;  // [n] pointers to head_size floats, already scaled
  float* const* outputs;        // [n]
  const int32_t* num_keys;      // [n]
  int n;
  int head_size;
  const uint8_t* const* key_blocks;    // [blocks]
  const uint8_t* const* value_blocks;  // [blocks]
  float* scores;                        // scratch, [n][score_stride]
  size_t score_stride;
};

// out[row][0..16) = one block of weights times rows [begin, end).
using Multiply = void (*)(const uint8_t* block, const QuantisedRows& rows, int begin, int end,
                          float* out, size_t out_stride);

struct Kernels {
  const char* name;
  int query_tile;
  // Quantises `count` values (a multiple of 32) of one row, starting at group `first_group`.
  void (*quantise)(const float* x, int count, const QuantisedRows& rows, int row, int first_group);
  // One for each kind of weight matrix.
  Multiply multiply_q4;
  Multiply multiply_q8;
  Multiply multiply_s4;
  Multiply multiply_s5;
  Multiply multiply_s6;
  Multiply multiply_bf16;
  Multiply multiply(TensorKind kind) const {
    switch (kind) {
      case TensorKind::kQ4:
        return multiply_q4;
      case TensorKind::kS4:
        return multiply_s4;
      case TensorKind::kS5:
        return multiply_s5;
      case TensorKind::kS6:
        return multiply_s6;
      case TensorKind::kBf16:
        return multiply_bf16;
      default:
        return multiply_q8;
    }
  }
  // x * weight / rms(x); returns the mean square, which is not finite when x is not.
  float (*rms_norm)(const float* x, const float* weight, int n, float epsilon, float* out);
  // Quantises factor * x; of the 16 values the first `count` matter.
  void (*quantise_lora)(const float* x, int count, float factor, LoraInput* out);
  // y[block][0..16) += B[block] x for the adapter blocks described in lora_slots.h; x holds
  // ceil(rank / 16) inputs.
  void (*expand)(const uint8_t* blocks, int num_blocks, int rank, const LoraInput* x, float* y);
  // out = silu(gate) * up over n values (a multiple of 16).
  void (*silu_times)(const float* gate, const float* up, int n, float* out);
  void (*add)(float* x, const float* y, int n);
  // x = (x + y - mean) / deviation * weight + bias, with x + y alone where y is null: over n values
  // (a multiple of 16). Not finite when x or y is not.
  void (*layer_norm)(float* x, const float* y, const float* weight, const float* bias, int n,
                     float epsilon);
  // out = x * factors over n values (a multiple of 16).
  void (*scale)(const float* x, const float* factors, int n, float* out);
  // x times the normal distribution function of x, over n values (a multiple of 16), and the
  // approximation of it by tanh (Hendrycks and Gimpel, arXiv 1606.08415).
  void (*gelu)(float* x, int n);
  void (*gelu_tanh)(float* x, int n);
  void (*tanh)(float* x, int n);  // over n values (a multiple of 16), to 2e-7
  void (*attend)(const AttentionTile& tile);
  void (*attend_int8)(const AttentionTile& tile);
  // The same over keys and values in single precision.
  void (*attend_float)(const AttentionTile& tile);
  void (*store_half)(const float* x, int n, uint16_t* out);
  // Quantises n values (a multiple of 16) to bytes; returns the scale, NaN when one is not finite.
  float (*store_int8)(const float* x, int n, int8_t* out);
  // For each chunk of a row of logits the largest value of each lane, maxima[chunk][16]; false
  // when a value is not finite.
  bool (*scan)(const float* x, int n, float* maxima);
  // weights[i] = e^((x[i] - top) * factor), zeros up to a multiple of 16; sums[chunk].
  void (*weigh)(const float* x, int n, float top, float factor, float* weights, float* sums);
  // Indices of the values that are at least `least`, in order; returns how many, or limit + 1 as
  // soon as there are more than `limit`. `indices` has room for limit + 16.
  int (*collect)(const float* x, int n, float least, int limit, int32_t* indices);
  // Sets the weights below `least` to 0 and makes the sums again.
  void (*cut)(float* weights, int n, float least, float* sums);
};

const Kernels* avx512_kernels();
const Kernels* avx2_vnni_kernels();
const Kernels* avx2_kernels();
const Kernels* neon_kernels();
const Kernels* portable_kernels();

// The best table this processor can run, or the one EDGELORA_ISA names. Throws Error.
const Kernels& choose_kernels();

}  // namespace edgelora
