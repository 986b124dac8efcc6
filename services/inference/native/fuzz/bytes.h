// The fuzzer's bytes as a stream of values; zeros follow its end.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace edgelora::fuzz {

class Bytes {
 public:
  Bytes(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  bool is_empty() const { return size_ == 0; }

  template <typename T>
  T take() {
    T value{};
    const size_t count = std::min(size_, sizeof value);
    std::memcpy(&value, data_, count);
    data_ += count;
    size_ -= count;
    return value;
  }

 private:
  const uint8_t* data_;
  size_t size_;
};

}  // namespace edgelora::fuzz
