#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "runtime/comm/values.h"

/// The arithmetic of collectives: loops that the compiler turns into vector instructions, in one
/// version per generation of CPUs, all with the same bits (no fused multiply-add).
namespace dlflow::runtime {

/// into[i] += values[i]. Equal sizes and types. Halves of floats are added as fp32 and rounded once
/// to the nearest, ties to even; integers wrap around. a + b and b + a have the same bits.
void add(const Values& into, const Values& values);

/// into[i] = values[i], rounded to the type of `into`. Equal sizes; the types are the same, or one
/// of them is Float32. Too large for Float16 becomes infinite; of a number that becomes an integer,
/// which must have it, the fraction is cut off.
void convert(const Values& into, const Values& values);

/// values[i] /= divisor, only of types with fractions; halves of floats are divided as fp32 and
/// rounded once.
void divide(const Values& values, int divisor);

/// A consumer of sums that come piece by piece: the number of the first, and the sums.
using Consume = std::function<void(size_t first, std::span<const float> sums)>;

/// Adds elements [first, first + count) of all `parts`, fp32, in the order of `additions`
/// (SumOrder) and hands the sums to `consume`, some hundred at a time, while they are in the
/// first-level cache. At most 32 parts wait for each other.
void sum_parts(std::span<const Values> parts, std::span<const uint8_t> additions, size_t first,
               size_t count, const Consume& consume);

/// The same for any type, one for all, and writes the sums to those elements of every one of
/// `results`, which may be parts; first the one that other cores read least. Halves of floats are
/// added as fp32, and only the sum of all parts is rounded. Nothing is read after its result was
/// written.
void sum_parts(std::span<const Values> parts, std::span<const uint8_t> additions,
               std::span<const Values> results, size_t first, size_t count);

}  // namespace dlflow::runtime
