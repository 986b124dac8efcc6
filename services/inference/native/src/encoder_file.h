// The packed file of an encoder. Written by edgelora_native/encoder_packing.py, which documents the
// layout.
#pragma once

#include <cstdint>
#include <string>

#include "tensor_file.h"

namespace edgelora {

constexpr uint32_t kEncoderVersion = 1;

// The tensors of one layer, in file order.
enum EncoderLayerTensor {
  kQkvFactors,  // what the inputs of query, key and value are multiplied by before they are rounded
  kEncoderQkv,
  kEncoderQkvBias,
  kAttentionDense,
  kAttentionDenseBias,
  kAttentionNormWeight,
  kAttentionNormBias,
  kIntermediateFactors,
  kIntermediate,
  kIntermediateBias,
  kOutputDense,
  kOutputDenseBias,
  kOutputNormWeight,
  kOutputNormBias,
  kNumEncoderLayerTensors
};
// The tensors before the layers. The pooler may be absent.
enum EncoderModelTensor {
  kWords,
  kPositions,  // with the vector of the first token type in each
  kEmbeddingNormWeight,
  kEmbeddingNormBias,
  kPooler,
  kPoolerBias,
  kNumEncoderModelTensors
};
enum class Gelu : uint32_t { kErf = 0, kTanh = 1 };

struct EncoderHeader {
  char magic[8];  // "EDGEBERT"
  uint32_t version;
  uint32_t header_bytes;
  uint32_t vocab_size;
  uint32_t hidden_size;
  uint32_t num_layers;
  uint32_t num_heads;
  uint32_t feed_forward_size;
  uint32_t max_context_tokens;
  Gelu gelu;
  float norm_epsilon;
  uint64_t file_bytes;

  uint32_t head_size() const { return hidden_size / num_heads; }
};

class EncoderFile : public TensorFile {
 public:
  explicit EncoderFile(const std::string& path);

  const EncoderHeader& header() const { return header_; }
  bool has_pooler() const { return model_tensor(kPooler).kind != TensorKind::kAbsent; }
  const TensorEntry& model_tensor(EncoderModelTensor tensor) const { return entry(tensor); }
  const TensorEntry& layer_tensor(int layer, EncoderLayerTensor tensor) const {
    return entry(kNumEncoderModelTensors +
                 static_cast<size_t>(layer) * kNumEncoderLayerTensors + tensor);
  }

 private:
  void check_header();
  void check_tensors() const;
  void check_matrix(const TensorEntry& matrix, const TensorEntry& bias, uint64_t rows,
                    uint64_t columns) const;
  void check_vector(const TensorEntry& vector, uint64_t size) const;

  EncoderHeader header_{};  // a copy, as the table is
};

}  // namespace edgelora
