#include "simd_avx2.h"
// The lanes come first.
#include "kernels.inl"

namespace edgelora {
const Kernels* avx2_vnni_kernels() {
  static constexpr Kernels kTable = table("avx2-vnni");
  return &kTable;
}
}  // namespace edgelora
