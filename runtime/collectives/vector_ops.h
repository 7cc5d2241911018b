#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

/// What collectives compute: loops over fp32 that the compiler turns into vector instructions, in
/// one version per generation of CPUs, all with the same bits (no fused multiply-add).
namespace dlflow::runtime {

/// into[i] += values[i]. Equal sizes.
void add(std::span<float> into, std::span<const float> values);

/// Adds elements [first, first + count) of all `parts` in the order of `additions` (SumOrder) and
/// writes the sum to the same elements of every one of `results`, which may be parts. Nothing is
/// read after its result was written. At most 32 parts wait for each other.
void sum_parts(std::span<const float* const> parts, std::span<const uint8_t> additions,
               std::span<float* const> results, size_t first, size_t count);

}  // namespace dlflow::runtime
