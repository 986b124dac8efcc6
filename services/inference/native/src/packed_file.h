// The packed file of a decoder. Written by edgelora_native/packing.py, which documents the layout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "tensor_file.h"

namespace edgelora {

constexpr uint32_t kFormatVersion = 1;

// The tensors of one layer, in file order.
enum LayerTensor { kAttentionNorm, kQkv, kOutput, kFeedForwardNorm, kGateUp, kDown, kQkvBias,
                   kQueryNorm, kKeyNorm, kNumLayerTensors };
// The tensors before the layers. The embedding is absent when it is the head.
enum ModelTensor { kHead, kFinalNorm, kEmbedding, kInverseFrequencies, kNumModelTensors };

struct PackedHeader {
  char magic[8];  // "EDGELORA"
  uint32_t version;
  uint32_t header_bytes;
  uint32_t vocab_size;
  uint32_t hidden_size;
  uint32_t num_layers;
  uint32_t num_heads;
  uint32_t num_kv_heads;
  uint32_t head_size;
  uint32_t feed_forward_size;
  uint32_t max_context_tokens;
  float norm_epsilon;
  float attention_factor;  // multiplies the rotary sine and cosine (YaRN), else 1
  uint64_t file_bytes;
};

class PackedFile : public TensorFile {
 public:
  explicit PackedFile(const std::string& path);

  const PackedHeader& header() const { return header_; }
  const TensorEntry& model_tensor(ModelTensor tensor) const { return entry(tensor); }
  const TensorEntry& layer_tensor(uint32_t layer, LayerTensor tensor) const {
    return entry(kNumModelTensors + size_t{layer} * kNumLayerTensors + tensor);
  }

 private:
  void check_header();
  void check_tensors() const;

  PackedHeader header_{};  // a copy, as the table is
};

}  // namespace edgelora
