// Memory for the activations of some rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels.h"

namespace edgelora {

class QuantisedBuffer {
 public:
  // For `rows` rows of `width` values.
  QuantisedBuffer(size_t rows, int width) {
    const size_t groups = (rows + kRowTile - 1) / kRowTile * kRowTile *
                          static_cast<size_t>(width / kGroup);
    values_.resize(groups * kGroup);
    scales_.resize(groups);
    scaled_sums_.resize(groups);
    sums_.resize(groups);
    rows_ = {values_.data(), scales_.data(), scaled_sums_.data(), sums_.data(), width / kGroup};
  }
  const QuantisedRows& rows() const { return rows_; }

 private:
  std::vector<int8_t> values_;
  std::vector<float> scales_, scaled_sums_;
  std::vector<int32_t> sums_;
  QuantisedRows rows_{};
};

}  // namespace edgelora
