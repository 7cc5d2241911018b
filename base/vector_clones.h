#pragma once

/// Before a function: compile it once per generation of x86-64 CPUs (SSE2, AVX2, AVX-512) and pick
/// the right one when the program starts. One binary then runs everywhere and is fast everywhere.
/// By feature level, not by CPU model: GCC takes "arch=haswell" for that very model, and unknown or
/// virtual CPUs would get the slowest version.
/// Sanitizers watch the plain version: their run time is not up yet when the choice is made.
///
/// Sources that use it are compiled with -ffp-contract=off (dlflow_same_bits in cmake/), so that
/// all versions compute the same bits.
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define DLFLOW_VECTOR_CLONES \
  __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define DLFLOW_VECTOR_CLONES
#endif

/// Before what such functions call: only what is inlined is compiled once per generation, too.
#define DLFLOW_INLINE __attribute__((always_inline)) inline
