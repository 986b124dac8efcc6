// The packed model file, mapped read-only. Written by services/inference/native/packing.py, which
// documents the layout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace edgelora {

constexpr uint32_t kFormatVersion = 1;

enum class TensorKind : uint32_t { kAbsent = 0, kF32 = 1, kQ4 = 2, kQ8 = 3 };

// One tensor as the file's table names it: `rows` x `columns`, quantised kinds in blocks of 16 rows.
struct TensorEntry {
  uint32_t kind;
  uint32_t rows;
  uint32_t columns;
  uint32_t reserved;
  uint64_t offset;
  uint64_t bytes;
};

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

// Everything the file says about sizes and places is checked before it is used; the numbers of the
// tensors can be anything. The file must not be cut while it is mapped: reading beyond its new end
// kills the process (SIGBUS), so a model is replaced by renaming another file over it.
class PackedFile {
 public:
  explicit PackedFile(const std::string& path);
  ~PackedFile();
  PackedFile(const PackedFile&) = delete;
  PackedFile& operator=(const PackedFile&) = delete;

  const PackedHeader& header() const { return header_; }
  const TensorEntry& model_tensor(ModelTensor tensor) const { return table_[tensor]; }
  const TensorEntry& layer_tensor(uint32_t layer, LayerTensor tensor) const {
    return table_[kNumModelTensors + size_t{layer} * kNumLayerTensors + tensor];
  }
  const uint8_t* bytes(const TensorEntry& entry) const { return data_ + entry.offset; }
  const float* floats(const TensorEntry& entry) const {
    return reinterpret_cast<const float*>(bytes(entry));
  }
  size_t size() const { return size_; }

 private:
  void read_header();
  void check_tensors() const;
  void check_tensor(const TensorEntry& entry, uint64_t rows, uint64_t columns, bool is_float,
                    bool may_be_absent) const;

  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
  // Copies: what was checked stays true whatever happens to the file.
  PackedHeader header_{};
  std::vector<TensorEntry> table_;
};

}  // namespace edgelora
