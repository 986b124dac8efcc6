#include "packed_file.h"

#include <cstring>

#include "error.h"

namespace edgelora {

PackedFile::PackedFile(const std::string& path) : TensorFile(path, sizeof(PackedHeader)) {
  read_header(&header_);
  check_header();
  check_tensors();
}

void PackedFile::check_header() {
  const PackedHeader& h = header_;
  require(std::memcmp(h.magic, "EDGELORA", 8) == 0, "this is no packed model file");
  check_whole(h.file_bytes, h.version, kFormatVersion);
  const auto within = [](uint32_t x, uint32_t high) { return x >= 1 && x <= high; };
  require(within(h.vocab_size, 1u << 20) && within(h.hidden_size, 1u << 16) &&
              within(h.num_layers, 1024) && within(h.num_heads, 1024) &&
              within(h.num_kv_heads, h.num_heads) && within(h.head_size, 512) &&
              within(h.feed_forward_size, 1u << 18) && within(h.max_context_tokens, 1u << 20) &&
              h.norm_epsilon >= 0.0f && h.norm_epsilon <= 1.0f &&
              h.attention_factor > 0.0f && h.attention_factor <= 100.0f,
          "the packed model file has sizes out of range");
  require(h.hidden_size % kGroup == 0 && h.feed_forward_size % kGroup == 0 &&
              h.head_size % kGroup == 0 && h.num_heads % h.num_kv_heads == 0 &&
              h.vocab_size % kLanes == 0,
          "the packed model file has sizes this engine does not serve");
  read_table(kNumModelTensors + size_t{h.num_layers} * kNumLayerTensors, h.header_bytes);
}

void PackedFile::check_tensors() const {
  const PackedHeader& h = header_;
  const uint64_t q = uint64_t{h.num_heads} * h.head_size;
  const uint64_t kv = uint64_t{h.num_kv_heads} * h.head_size;
  check_tensor(model_tensor(kHead), h.vocab_size, h.hidden_size, false, false);
  check_tensor(model_tensor(kFinalNorm), 1, h.hidden_size, true, false);
  check_tensor(model_tensor(kEmbedding), h.vocab_size, h.hidden_size, false, true);
  check_tensor(model_tensor(kInverseFrequencies), 1, h.head_size / 2, true, false);
  for (uint32_t layer = 0; layer < h.num_layers; layer++) {
    check_tensor(layer_tensor(layer, kAttentionNorm), 1, h.hidden_size, true, false);
    check_tensor(layer_tensor(layer, kQkv), q + 2 * kv, h.hidden_size, false, false);
    check_tensor(layer_tensor(layer, kOutput), h.hidden_size, q, false, false);
    check_tensor(layer_tensor(layer, kFeedForwardNorm), 1, h.hidden_size, true, false);
    check_tensor(layer_tensor(layer, kGateUp), 2 * uint64_t{h.feed_forward_size}, h.hidden_size,
                 false, false);
    check_tensor(layer_tensor(layer, kDown), h.hidden_size, h.feed_forward_size, false, false);
    check_tensor(layer_tensor(layer, kQkvBias), 1, q + 2 * kv, true, true);
    check_tensor(layer_tensor(layer, kQueryNorm), 1, h.head_size, true, true);
    check_tensor(layer_tensor(layer, kKeyNorm), 1, h.head_size, true, true);
  }
}

}  // namespace edgelora
