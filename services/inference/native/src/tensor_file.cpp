#include "tensor_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "error.h"

namespace edgelora {
namespace {

constexpr uint64_t kAlignment = 64;
constexpr const char* kCut = "the packed model file is cut: prepare the model again";

}  // namespace

TensorFile::TensorFile(const std::string& path, size_t header_size) : header_size_(header_size) {
  // Not blocking, so that a named pipe is refused instead of waited for.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) throw Error("cannot open the packed model file");
  struct stat status {};
  if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(descriptor);
    throw Error("the packed model file is no regular file");
  }
  if (static_cast<size_t>(status.st_size) < header_size) {
    ::close(descriptor);
    throw Error(kCut);
  }
  size_ = static_cast<size_t>(status.st_size);
  void* mapped = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, descriptor, 0);
  ::close(descriptor);
  if (mapped == MAP_FAILED) throw Error("cannot map the packed model file");
  data_ = static_cast<const uint8_t*>(mapped);
}

TensorFile::~TensorFile() { ::munmap(const_cast<uint8_t*>(data_), size_); }

bool TensorFile::has(TensorKind kind) const {
  return std::any_of(table_.begin(), table_.end(),
                     [&](const TensorEntry& entry) { return entry.kind == kind; });
}

void TensorFile::read_header(void* header) const { std::memcpy(header, data_, header_size_); }

void TensorFile::check_whole(uint64_t file_bytes, uint32_t version,
                             uint32_t served_version) const {
  require(version == served_version,
          "the packed model file has another version: prepare the model again");
  require(file_bytes == size_, kCut);
}

void TensorFile::read_table(size_t entries, size_t header_bytes) {
  require(header_bytes == header_size_ + entries * sizeof(TensorEntry) && header_bytes <= size_,
          "the packed model file has a malformed table");
  header_bytes_ = header_bytes;
  table_.resize(entries);
  std::memcpy(table_.data(), data_ + header_size_, entries * sizeof(TensorEntry));
}

void TensorFile::check_tensor(const TensorEntry& entry, uint64_t rows, uint64_t columns,
                              bool is_float, bool may_be_absent) const {
  if (entry.kind == TensorKind::kAbsent) {
    require(may_be_absent, "the packed model file lacks a tensor");
    return;
  }
  require(is_float ? entry.kind == TensorKind::kF32 : group_bytes(entry.kind) != 0,
          "the packed model file has a tensor of an unknown kind");
  check_place(entry, rows, columns,
              is_float ? rows * columns * sizeof(float)
                       : rows / kLanes * (columns / kGroup) * group_bytes(entry.kind));
}

void TensorFile::check_place(const TensorEntry& entry, uint64_t rows, uint64_t columns,
                             uint64_t bytes) const {
  require(entry.rows == rows && entry.columns == columns,
          "the packed model file has a tensor of the wrong shape");
  require(entry.bytes == bytes && entry.offset % kAlignment == 0 &&
              entry.offset >= header_bytes_ && entry.offset <= size_ &&
              bytes <= size_ - entry.offset,
          "the packed model file has a tensor outside its bounds");
}

}  // namespace edgelora
