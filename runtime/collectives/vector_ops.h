#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "runtime/comm/values.h"

/// The arithmetic of collectives: loops that the compiler vectorizes, in one version per generation
/// of CPUs, all with the same bits (no fused multiply-add).
namespace dlflow::runtime {

/// into[i] += values[i]. Equal sizes and types. Half-precision numbers are added in fp32 and
/// rounded once to nearest, ties to even; integers wrap around. Commutative bit for bit.
void add(const Values& into, const Values& values);

/// into[i] = values[i], rounded to the type of `into`. Equal sizes; the types are the same, or one
/// of them is Float32. Values too large for Float16 become infinite. Conversion to an integer
/// truncates; the integer type must be able to represent the value.
void convert(const Values& into, const Values& values);

/// values[i] /= divisor, for floating-point types only; half-precision numbers are divided in fp32
/// and rounded once.
void divide(const Values& values, int divisor);

/// A consumer of sums that come piece by piece: the index of the first element, and the sums.
using Consume = std::function<void(size_t first, std::span<const float> sums)>;

/// Adds elements [first, first + count) of all `parts`, fp32, in the order of `additions`
/// (SumOrder) and passes the sums to `consume`, some hundred at a time, while they are in the
/// first-level cache. At most 32 parts may be on the stack.
void sum_parts(std::span<const Values> parts, std::span<const uint8_t> additions, size_t first,
               size_t count, const Consume& consume);

/// The same for any type, shared by all parts, writing the sums to those elements of all `results`,
/// which may be parts; the result that other cores read least should come first. Half-precision
/// numbers are added in fp32, and only the sum of all parts is rounded. No element is read after
/// its result was written.
void sum_parts(std::span<const Values> parts, std::span<const uint8_t> additions,
               std::span<const Values> results, size_t first, size_t count);

}  // namespace dlflow::runtime
