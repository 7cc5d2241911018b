#include "runtime/nn/arithmetic.h"

#include <omp.h>

#include <dnnl.hpp>

namespace dlflow::runtime {
namespace {

const char* name(dnnl::cpu_isa isa) {
  switch (isa) {
    case dnnl::cpu_isa::sse41:
      return "sse41";
    case dnnl::cpu_isa::avx:
      return "avx";
    case dnnl::cpu_isa::avx2:
      return "avx2";
    case dnnl::cpu_isa::avx2_vnni:
      return "avx2_vnni";
    case dnnl::cpu_isa::avx512_core:
      return "avx512_core";
    case dnnl::cpu_isa::avx512_core_vnni:
      return "avx512_core_vnni";
    case dnnl::cpu_isa::avx512_core_bf16:
      return "avx512_core_bf16";
    case dnnl::cpu_isa::avx512_core_amx:
      return "avx512_core_amx";
    default:
      return "another instruction set";
  }
}

/// $ONEDNN_DEFAULT_FPMATH_MODE lets oneDNN round the factors of fp32 where that is faster (AMX).
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

/// Of our own loops (base/vector_clones.h), whatever oneDNN may use: those for AVX2 and AVX-512
/// multiply and add with one rounding, the plain ones with two.
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
