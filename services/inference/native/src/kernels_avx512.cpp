#include "simd_avx512.h"
// The lanes come first.
#include "kernels.inl"

namespace edgelora {
const Kernels* avx512_kernels() {
  static constexpr Kernels kTable = table("avx512-vnni");
  return &kTable;
}
}  // namespace edgelora
