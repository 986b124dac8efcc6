// Chooses the kernels at run time.
#include <cstdlib>
#include <string>

#include "error.h"
#include "kernels.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace edgelora {
namespace {

#if defined(__x86_64__)
// Leaf 7, subleaf 1, EAX bit 4. Older compilers do not know the feature by name.
bool has_avx_vnni() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax & (1u << 4)) != 0;
}
#endif

struct Variant {
  const char* name;
  bool (*is_supported)();
  const Kernels* (*kernels)();
};

// Best first.
const Variant kVariants[] = {
#if defined(__x86_64__)
    {"avx512-vnni",
     [] {
       return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
              __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
              __builtin_cpu_supports("avx512vnni");
     },
     avx512_kernels},
    {"avx2-vnni",
     [] {
       return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
              __builtin_cpu_supports("f16c") && has_avx_vnni();
     },
     avx2_vnni_kernels},
    {"avx2",
     [] {
       return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
              __builtin_cpu_supports("f16c");
     },
     avx2_kernels},
#elif defined(__aarch64__)
    {"neon-dotprod", [] { return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0; }, neon_kernels},
#endif
    {"portable", [] { return true; }, portable_kernels},
};

}  // namespace

const Kernels& choose_kernels() {
  const char* forced = std::getenv("EDGELORA_ISA");
  for (const Variant& variant : kVariants) {
    if (forced != nullptr && *forced != '\0' && std::string(forced) != variant.name) continue;
    if (variant.is_supported()) return *variant.kernels();
    if (forced != nullptr && *forced != '\0')
      throw Error("EDGELORA_ISA names an instruction set this processor lacks");
  }
  throw Error("EDGELORA_ISA names an unknown instruction set");
}

}  // namespace edgelora
