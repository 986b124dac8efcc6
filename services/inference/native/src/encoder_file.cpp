#include "encoder_file.h"

#include <cstring>

#include "error.h"

namespace edgelora {

EncoderFile::EncoderFile(const std::string& path) : TensorFile(path, sizeof(EncoderHeader)) {
  read_header(&header_);
  check_header();
  check_tensors();
}

void EncoderFile::check_header() {
  const EncoderHeader& h = header_;
  require(std::memcmp(h.magic, "EDGEBERT", 8) == 0, "this is no packed encoder file");
  check_whole(h.file_bytes, h.version, kEncoderVersion);
  const auto within = [](uint32_t x, uint32_t high) { return x >= 1 && x <= high; };
  require(within(h.vocab_size, 1u << 20) && within(h.hidden_size, 1u << 14) &&
              within(h.num_layers, 1024) && within(h.num_heads, 1024) &&
              within(h.feed_forward_size, 1u << 16) && within(h.max_context_tokens, 1u << 16) &&
              h.norm_epsilon >= 0.0f && h.norm_epsilon <= 1.0f && h.gelu <= Gelu::kTanh,
          "the packed encoder file has sizes out of range");
  require(h.hidden_size % h.num_heads == 0 && h.head_size() % kGroup == 0 &&
              h.head_size() <= 512 && h.feed_forward_size % kGroup == 0,
          "the packed encoder file has sizes this core does not serve");
  read_table(kNumEncoderModelTensors + size_t{h.num_layers} * kNumEncoderLayerTensors,
             h.header_bytes);
}

void EncoderFile::check_tensors() const {
  const EncoderHeader& h = header_;
  const uint64_t hidden = h.hidden_size;
  const uint64_t inner = h.feed_forward_size;
  require(model_tensor(kWords).kind == TensorKind::kRows8,
          "the packed encoder file has a table of words of an unknown kind");
  check_place(model_tensor(kWords), h.vocab_size, hidden,
              h.vocab_size * (hidden / kGroup) * kRowGroupBytes);
  check_tensor(model_tensor(kPositions), h.max_context_tokens, hidden, true, false);
  check_vector(model_tensor(kEmbeddingNormWeight), hidden);
  check_vector(model_tensor(kEmbeddingNormBias), hidden);
  if (has_pooler()) check_matrix(model_tensor(kPooler), model_tensor(kPoolerBias), hidden, hidden);
  for (int layer = 0; layer < static_cast<int>(h.num_layers); layer++) {
    const auto tensor = [&](EncoderLayerTensor one) { return layer_tensor(layer, one); };
    check_matrix(tensor(kEncoderQkv), tensor(kEncoderQkvBias), 3 * hidden, hidden);
    check_matrix(tensor(kAttentionDense), tensor(kAttentionDenseBias), hidden, hidden);
    check_matrix(tensor(kIntermediate), tensor(kIntermediateBias), inner, hidden);
    check_matrix(tensor(kOutputDense), tensor(kOutputDenseBias), hidden, inner);
    check_vector(tensor(kQkvFactors), hidden);
    check_vector(tensor(kIntermediateFactors), hidden);
    check_vector(tensor(kAttentionNormWeight), hidden);
    check_vector(tensor(kAttentionNormBias), hidden);
    check_vector(tensor(kOutputNormWeight), hidden);
    check_vector(tensor(kOutputNormBias), hidden);
  }
}

void EncoderFile::check_matrix(const TensorEntry& matrix, const TensorEntry& bias, uint64_t rows,
                               uint64_t columns) const {
  require(matrix.kind == TensorKind::kQ8 || matrix.kind == TensorKind::kAbsent,
          "the packed encoder file has a matrix that is not 8-bit");
  check_tensor(matrix, rows, columns, false, false);
  check_vector(bias, rows);
}

void EncoderFile::check_vector(const TensorEntry& vector, uint64_t size) const {
  check_tensor(vector, 1, size, true, false);
}

}  // namespace edgelora
