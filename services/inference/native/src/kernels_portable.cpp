#include "simd_portable.h"
// The lanes come first.
#include "kernels.inl"

namespace edgelora {
const Kernels* portable_kernels() {
  static constexpr Kernels kTable = table("portable");
  return &kTable;
}
}  // namespace edgelora
