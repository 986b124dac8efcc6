#include "simd_neon.h"
// The lanes come first.
#include "kernels.inl"

namespace edgelora {
const Kernels* neon_kernels() {
  static constexpr Kernels kTable = table("neon-dotprod");
  return &kTable;
}
}  // namespace edgelora
