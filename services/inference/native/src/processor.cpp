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
// Not every compiler knows these two features by name.
bool has_f16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & (1u << 29)) != 0;
}

bool has_avx_vnni() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax & (1u << 4)) != 0;
}

bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}

bool has_avx512_vnni() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vnni");
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
    {"avx512-vnni", has_avx512_vnni, avx512_kernels},
    {"avx2-vnni", [] { return has_avx2() && has_avx_vnni(); }, avx2_vnni_kernels},
    {"avx2", has_avx2, avx2_kernels},
#elif defined(__aarch64__)
    {"neon-dotprod", [] { return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0; }, neon_kernels},
#endif
    {"portable", [] { return true; }, portable_kernels},
};

// The names EDGELORA_ISA may have on this processor.
std::string served_names() {
  std::string names;
  for (const Variant& variant : kVariants)
    if (variant.is_supported()) names += (names.empty() ? "" : ", ") + std::string(variant.name);
  return names;
}

}  // namespace

const Kernels& choose_kernels() {
  const char* setting = std::getenv("EDGELORA_ISA");
  const std::string forced = setting != nullptr ? setting : "";
  for (const Variant& variant : kVariants) {
    if (!forced.empty() && forced != variant.name) continue;
    if (variant.is_supported()) return *variant.kernels();
    if (!forced.empty())
      throw Error("EDGELORA_ISA names an instruction set this processor lacks; it has " +
                  served_names());
  }
  throw Error("EDGELORA_ISA names an unknown instruction set; this processor has " +
              served_names());
}

}  // namespace edgelora
