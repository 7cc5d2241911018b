#include "runtime/nn/arithmetic.h"

#include <omp.h>

#include <dnnl.hpp>

#include "base/version.h"

namespace dlflow::runtime {
namespace {

const char* name(dnnl::cpu_isa isa) {
  using Isa = dnnl::cpu_isa;
  constexpr std::pair<Isa, const char*> kNames[] = {{Isa::sse41, "sse41"},
                                                    {Isa::avx, "avx"},
                                                    {Isa::avx2, "avx2"},
                                                    {Isa::avx2_vnni, "avx2_vnni"},
                                                    {Isa::avx512_core, "avx512_core"},
                                                    {Isa::avx512_core_vnni, "avx512_core_vnni"},
                                                    {Isa::avx512_core_bf16, "avx512_core_bf16"},
                                                    {Isa::avx512_core_amx, "avx512_core_amx"}};
  for (const auto& [known, name] : kNames) {
    if (known == isa) return name;
  }
  return "another instruction set";
}

/// $ONEDNN_DEFAULT_FPMATH_MODE lets oneDNN round fp32 factors where this is faster (AMX).
const char* rounding_of_factors() {
  dnnl_fpmath_mode_t mode = dnnl_fpmath_mode_strict;
  dnnl_get_default_fpmath_mode(&mode);
  switch (mode) {
    case dnnl_fpmath_mode_strict:
      return "";
    case dnnl_fpmath_mode_bf16:
      return ", factors rounded to bf16";
    case dnnl_fpmath_mode_f16:
      return ", factors rounded to fp16";
    default:
      return ", factors rounded";
  }
}

/// Our own loops (base/vector_clones.h) do not depend on what oneDNN may use: their AVX2 and
/// AVX-512 versions multiply and add with one rounding, the plain ones with two.
const char* own_loops() {
#if defined(__x86_64__)
  static const bool has_fma =
      __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  return has_fma ? "" : ", loops without FMA";
#else
  return "";
#endif
}

}  // namespace

bool has_fast_bf16() { return dnnl::get_effective_cpu_isa() >= dnnl::cpu_isa::avx512_core_amx; }

std::string arithmetic(Compute compute) {
  const dnnl_version_t& version = *dnnl_version();
  const int threads = omp_get_max_threads();
  return "dlflow " DLFLOW_VERSION " (" __VERSION__ "), oneDNN " + std::to_string(version.major) +
         "." + std::to_string(version.minor) + "." + std::to_string(version.patch) + ", " +
         name(dnnl::get_effective_cpu_isa()) + own_loops() + rounding_of_factors() +
         (compute == Compute::BFloat16 ? ", bf16, " : ", ") + std::to_string(threads) +
         (threads == 1 ? " thread" : " threads");
}

}  // namespace dlflow::runtime
