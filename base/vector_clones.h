#pragma once

/// Placed before a function: compiles it once per generation of x86-64 CPUs (SSE2, AVX2, AVX-512);
/// the right version is chosen when the program starts. One binary then runs everywhere and is fast
/// everywhere. The choice is by feature level, not by CPU model: GCC would use "arch=haswell" for
/// that very model only, and unknown or virtual CPUs would get the slowest version. Sanitizers get
/// the plain version, since their run time is not ready when the choice is made.
///
/// Sources in dlflow_same_bits (cmake/) are compiled with -ffp-contract=off, so that all versions
/// compute the same bits. In others (runtime/nn, for speed) the AVX2 and AVX-512 versions use FMA
/// and agree with each other, but not with the plain one (see arithmetic() in runtime/nn).
///
/// With DLFLOW_NO_AVX512 the program is as fast as on CPUs without it (bench/training.sh --avx2).
#if defined(DLFLOW_NO_AVX512)
#define DLFLOW_VECTOR_CLONES __attribute__((target_clones("default", "arch=x86-64-v3")))
#elif defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define DLFLOW_VECTOR_CLONES \
  __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define DLFLOW_VECTOR_CLONES
#endif

/// Placed before a function that is only for such CPUs.
#if defined(__x86_64__)
#define DLFLOW_FOR_AVX2 __attribute__((target("arch=x86-64-v3")))
#define DLFLOW_FOR_AVX512 __attribute__((target("arch=x86-64-v4")))
#else
#define DLFLOW_FOR_AVX2
#define DLFLOW_FOR_AVX512
#endif

/// Placed before functions that such functions call: only inlined code is compiled once per
/// generation, too.
#define DLFLOW_INLINE __attribute__((always_inline)) inline

namespace dlflow {

/// Clang 14 does not accept "x86-64-v3" here.
inline bool has_avx2() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
#else
  return false;
#endif
}

/// All of x86-64-v4: Knights Landing has only avx512f and avx512cd.
inline bool has_avx512() {
#if defined(__x86_64__) && !defined(DLFLOW_NO_AVX512)
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
#else
  return false;
#endif
}

}  // namespace dlflow
