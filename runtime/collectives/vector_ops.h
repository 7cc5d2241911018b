#pragma once

#include <cstddef>
#include <span>

/// What collectives compute: loops over fp32 that the compiler turns into vector instructions, in
/// one version per generation of CPUs, all with the same bits (no fused multiply-add).
namespace dlflow::runtime {

/// into[i] += values[i]. Equal sizes.
void add(std::span<float> into, std::span<const float> values);

/// values[i] *= factor.
void scale(std::span<float> values, float factor);

/// In every one of `buffers`, replaces elements [first, first + count) by
/// (buffers[0] + buffers[1] + ...) * factor, added in this order.
void sum_in_place(std::span<float* const> buffers, size_t first, size_t count, float factor);

}  // namespace dlflow::runtime
