#include "packed_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "error.h"
#include "kernels.h"

namespace edgelora {
namespace {

constexpr uint64_t kAlignment = 64;
constexpr const char* kCut = "the packed model file is cut: prepare the model again";

}  // namespace

PackedFile::PackedFile(const std::string& path) {
  // Not blocking, so that a named pipe is refused instead of waited for.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) throw Error("cannot open the packed model file");
  struct stat status {};
  if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(descriptor);
    throw Error("the packed model file is no regular file");
  }
  if (static_cast<size_t>(status.st_size) < sizeof(PackedHeader)) {
    ::close(descriptor);
    throw Error(kCut);
  }
  size_ = static_cast<size_t>(status.st_size);
  void* mapped = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, descriptor, 0);
  ::close(descriptor);
  if (mapped == MAP_FAILED) throw Error("cannot map the packed model file");
  data_ = static_cast<const uint8_t*>(mapped);
  try {
    read_header();
    check_tensors();
  } catch (...) {
    ::munmap(mapped, size_);
    throw;
  }
}

PackedFile::~PackedFile() { ::munmap(const_cast<uint8_t*>(data_), size_); }

void PackedFile::read_header() {
  std::memcpy(&header_, data_, sizeof header_);
  const PackedHeader& h = header_;
  require(std::memcmp(h.magic, "EDGELORA", 8) == 0, "this is no packed model file");
  require(h.version == kFormatVersion,
          "the packed model file has another version: prepare the model again");
  require(h.file_bytes == size_, kCut);
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
  const size_t entries = kNumModelTensors + size_t{h.num_layers} * kNumLayerTensors;
  require(h.header_bytes == sizeof(PackedHeader) + entries * sizeof(TensorEntry) &&
              h.header_bytes <= size_,
          "the packed model file has a malformed table");
  table_.resize(entries);
  std::memcpy(table_.data(), data_ + sizeof(PackedHeader), entries * sizeof(TensorEntry));
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

void PackedFile::check_tensor(const TensorEntry& entry, uint64_t rows, uint64_t columns,
                              bool is_float, bool may_be_absent) const {
  if (entry.kind == static_cast<uint32_t>(TensorKind::kAbsent)) {
    require(may_be_absent, "the packed model file lacks a tensor");
    return;
  }
  const bool kind_is_float = entry.kind == static_cast<uint32_t>(TensorKind::kF32);
  require(kind_is_float == is_float && entry.kind <= static_cast<uint32_t>(TensorKind::kQ8),
          "the packed model file has a tensor of an unknown kind");
  require(entry.rows == rows && entry.columns == columns,
          "the packed model file has a tensor of the wrong shape");
  uint64_t bytes = rows * columns * sizeof(float);
  if (!is_float) {
    const uint64_t groups = rows / kLanes * (columns / kGroup);
    bytes = groups * (entry.kind == static_cast<uint32_t>(TensorKind::kQ4) ? kQ4GroupBytes
                                                                          : kQ8GroupBytes);
  }
  require(entry.bytes == bytes && entry.offset % kAlignment == 0 &&
              entry.offset >= header_.header_bytes && entry.offset <= size_ &&
              bytes <= size_ - entry.offset,
          "the packed model file has a tensor outside its bounds");
}

}  // namespace edgelora
