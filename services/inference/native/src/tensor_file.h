// A file of tensors, mapped read-only: a header, a table of what lies where, the tensors. Written by
// services/inference/native/python, whose packing modules document the layouts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tensor_kind.h"

namespace edgelora {

// One tensor as the file's table names it: `rows` x `columns`, a weight matrix in blocks of 16 rows.
struct TensorEntry {
  TensorKind kind;
  uint32_t rows;
  uint32_t columns;
  uint32_t reserved;
  uint64_t offset;
  uint64_t bytes;
};

// Everything the file says about sizes and places is checked before it is used; the numbers of the
// tensors can be anything. The file must not be cut while it is mapped: reading beyond its new end
// kills the process (SIGBUS), so a model is replaced by renaming another file over it.
class TensorFile {
 public:
  TensorFile(const TensorFile&) = delete;
  TensorFile& operator=(const TensorFile&) = delete;

  const uint8_t* bytes(const TensorEntry& entry) const { return data_ + entry.offset; }
  const float* floats(const TensorEntry& entry) const {
    return reinterpret_cast<const float*>(bytes(entry));
  }
  size_t size() const { return size_; }
  // A block of a weight matrix.
  const uint8_t* block(const TensorEntry& entry, size_t index) const {
    return bytes(entry) + index * (entry.columns / kGroup) * group_bytes(entry.kind);
  }
  // Whether a weight matrix is of this kind.
  bool has(TensorKind kind) const;

 protected:
  // Maps a file of at least `header_size` bytes. Throws Error.
  TensorFile(const std::string& path, size_t header_size);
  ~TensorFile();

  // Copies the header.
  void read_header(void* header) const;
  // Throws Error unless the header names this size and the version that is served.
  void check_whole(uint64_t file_bytes, uint32_t version, uint32_t served_version) const;
  // Copies the table behind the header. `header_bytes`: what the header says both take together.
  void read_table(size_t entries, size_t header_bytes);
  const TensorEntry& entry(size_t index) const { return table_[index]; }
  void check_tensor(const TensorEntry& entry, uint64_t rows, uint64_t columns, bool is_float,
                    bool may_be_absent) const;
  // A tensor of `rows` x `columns` that takes so many bytes.
  void check_place(const TensorEntry& entry, uint64_t rows, uint64_t columns, uint64_t bytes) const;

 private:
  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
  size_t header_size_;
  size_t header_bytes_ = 0;
  // A copy: what was checked stays true whatever happens to the file.
  std::vector<TensorEntry> table_;
};

}  // namespace edgelora
