#include "runtime/collectives/vector_ops.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "base/bfloat16.h"
#include "base/error.h"
#include "base/float16.h"
#include "base/vector_clones.h"

namespace dlflow::runtime {
namespace {

/// `sum` may be `a` or `b`.
DLFLOW_VECTOR_CLONES
void sum_of_arrays(const float* a, const float* b, float* sum, size_t count) {
#pragma GCC ivdep
  for (size_t i = 0; i < count; ++i) sum[i] = a[i] + b[i];
}

DLFLOW_VECTOR_CLONES
void sum_of_arrays(const uint32_t* a, const uint32_t* b, uint32_t* sum, size_t count) {
#pragma GCC ivdep
  for (size_t i = 0; i < count; ++i) sum[i] = a[i] + b[i];
}

DLFLOW_VECTOR_CLONES
void sum_of_arrays(const uint64_t* a, const uint64_t* b, uint64_t* sum, size_t count) {
#pragma GCC ivdep
  for (size_t i = 0; i < count; ++i) sum[i] = a[i] + b[i];
}

DLFLOW_VECTOR_CLONES
void widen(float* __restrict into, const BFloat16* __restrict values, size_t count) {
  for (size_t i = 0; i < count; ++i) into[i] = dlflow::widen(values[i]);
}

DLFLOW_VECTOR_CLONES
void narrow(BFloat16* __restrict into, const float* __restrict values, size_t count) {
  for (size_t i = 0; i < count; ++i) into[i] = dlflow::narrow(values[i]);
}

DLFLOW_VECTOR_CLONES
void widen(float* __restrict into, const Float16* __restrict values, size_t count) {
  for (size_t i = 0; i < count; ++i) into[i] = dlflow::widen(values[i]);
}

DLFLOW_VECTOR_CLONES
void narrow(Float16* __restrict into, const float* __restrict values, size_t count) {
  for (size_t i = 0; i < count; ++i) into[i] = dlflow::narrow_to_float16(values[i]);
}

DLFLOW_VECTOR_CLONES
void divide(float* values, float divisor, size_t count) {
  for (size_t i = 0; i < count; ++i) values[i] /= divisor;
}

DLFLOW_VECTOR_CLONES
void divide(BFloat16* values, float divisor, size_t count) {
  for (size_t i = 0; i < count; ++i) values[i] = dlflow::narrow(dlflow::widen(values[i]) / divisor);
}

DLFLOW_VECTOR_CLONES
void divide(Float16* values, float divisor, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    values[i] = dlflow::narrow_to_float16(dlflow::widen(values[i]) / divisor);
  }
}

template <typename T>
T* as(const Values& values) {
  return reinterpret_cast<T*>(values.data);
}

template <typename T>
void add_as(const Values& into, const Values& values) {
  sum_of_arrays(as<T>(into), as<T>(values), as<T>(into), into.count);
}

/// Adds in blocks of fp32 that stay in the first-level cache.
template <typename Half>
void add_halves(const Values& into, const Values& values) {
  constexpr size_t kBlock = 1024;
  alignas(64) float left[kBlock], right[kBlock];
  for (size_t first = 0; first < into.count; first += kBlock) {
    const size_t block = std::min(kBlock, into.count - first);
    widen(left, as<Half>(into) + first, block);
    widen(right, as<Half>(values) + first, block);
    sum_of_arrays(left, right, left, block);
    narrow(as<Half>(into) + first, left, block);
  }
}

void from_floats(const Values& into, const float* values) {
  switch (into.type) {
    case DataType::Float16:
      return narrow(as<Float16>(into), values, into.count);
    case DataType::BFloat16:
      return narrow(as<BFloat16>(into), values, into.count);
    case DataType::Int32:
      return void(std::copy_n(values, into.count, as<int32_t>(into)));
    case DataType::Int64:
      return void(std::copy_n(values, into.count, as<int64_t>(into)));
    case DataType::Float32:
      break;
  }
  DLFLOW_CHECK(false);
}

void to_floats(float* into, const Values& values) {
  switch (values.type) {
    case DataType::Float16:
      return widen(into, as<Float16>(values), values.count);
    case DataType::BFloat16:
      return widen(into, as<BFloat16>(values), values.count);
    case DataType::Int32:
      return void(std::copy_n(as<int32_t>(values), values.count, into));
    case DataType::Int64:
      return void(std::copy_n(as<int64_t>(values), values.count, into));
    case DataType::Float32:
      break;
  }
  DLFLOW_CHECK(false);
}

/// The type in which numbers of type T are added.
template <typename T>
using Addend = std::conditional_t<sizeof(T) == 2, float, T>;

constexpr size_t kSumBlock = 512, kSumHeight = 32;

/// Passes the sums, not yet rounded, to `take` in blocks.
template <typename T, typename Take>
void sum_blocks(std::span<const Values> parts, std::span<const uint8_t> additions, size_t first,
                size_t count, const Take& take) {
  // The lowest rows stay in the first-level cache.
  alignas(64) Addend<T> sums[kSumHeight][kSumBlock];
  std::array<const Addend<T>*, kSumHeight> stack;
  for (const size_t end = first + count; first < end; first += kSumBlock) {
    const size_t block = std::min(kSumBlock, end - first);
    size_t height = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
      DLFLOW_CHECK(height < kSumHeight);
      const T* const part = as<T>(parts[i]) + first;
      if constexpr (std::is_same_v<T, Addend<T>>) {
        stack[height] = part;
      } else {
        widen(sums[height], part, block);
        stack[height] = sums[height];
      }
      ++height;
      for (uint8_t n = additions[i]; n > 0; --n) {
        --height;
        sum_of_arrays(stack[height - 1], stack[height], sums[height - 1], block);
        stack[height - 1] = sums[height - 1];
      }
    }
    DLFLOW_CHECK(height == 1);
    take(first, std::span(stack[0], block));
  }
}

/// The first result is copied to the others in runs of this many bytes. Stores to memory that
/// another core has read are two to five times as fast in long runs as between loads (measured on
/// AMD's Zen 5: 0.5 MiB in 6 us with runs of 16 KiB, 13 us with 2 KiB, 22 us with 1 KiB).
constexpr size_t kRunBytes = 16 << 10;

template <typename T>
void sum_to(T* result, std::span<const Values> parts, std::span<const uint8_t> additions,
            size_t first, size_t count) {
  if constexpr (std::is_same_v<T, Addend<T>>) {
    if (parts.size() == 2) {
      return sum_of_arrays(as<T>(parts[0]) + first, as<T>(parts[1]) + first, result, count);
    }
  }
  sum_blocks<T>(parts, additions, first, count, [&](size_t at, std::span<const Addend<T>> sums) {
    if constexpr (std::is_same_v<T, Addend<T>>) {
      std::ranges::copy(sums, result + (at - first));
    } else {
      narrow(result + (at - first), sums.data(), sums.size());
    }
  });
}

template <typename T>
void sum_into(std::span<const Values> parts, std::span<const uint8_t> additions,
              std::span<const Values> results, size_t first, size_t count) {
  constexpr size_t kCopied = kRunBytes / sizeof(T);
  for (const size_t end = first + count; first < end; first += kCopied) {
    const size_t size = std::min(kCopied, end - first);
    T* const sums = as<T>(results[0]) + first;
    sum_to(sums, parts, additions, first, size);
    for (const Values& result : results.subspan(1)) {
      std::memcpy(as<T>(result) + first, sums, size * sizeof(T));
    }
  }
}

}  // namespace

void add(const Values& into, const Values& values) {
  DLFLOW_CHECK(into.count == values.count && into.type == values.type);
  switch (into.type) {
    case DataType::Float32:
      return add_as<float>(into, values);
    case DataType::Float16:
      return add_halves<Float16>(into, values);
    case DataType::BFloat16:
      return add_halves<BFloat16>(into, values);
    case DataType::Int32:
      return add_as<uint32_t>(into, values);
    case DataType::Int64:
      return add_as<uint64_t>(into, values);
  }
}

void convert(const Values& into, const Values& values) {
  DLFLOW_CHECK(into.count == values.count);
  if (into.type == values.type) {
    std::memmove(into.data, values.data, into.bytes().size());
  } else if (values.type == DataType::Float32) {
    from_floats(into, values.floats().data());
  } else {
    to_floats(into.floats().data(), values);
  }
}

void divide(const Values& values, int divisor) {
  switch (values.type) {
    case DataType::Float32:
      return divide(as<float>(values), float(divisor), values.count);
    case DataType::Float16:
      return divide(as<Float16>(values), float(divisor), values.count);
    case DataType::BFloat16:
      return divide(as<BFloat16>(values), float(divisor), values.count);
    case DataType::Int32:
    case DataType::Int64:
      break;
  }
  DLFLOW_CHECK(false);
}

void sum_parts(std::span<const Values> parts, std::span<const uint8_t> additions, size_t first,
               size_t count, const Consume& consume) {
  DLFLOW_CHECK(parts[0].type == DataType::Float32);
  sum_blocks<float>(parts, additions, first, count,
                    [&](size_t at, std::span<const float> sums) { consume(at, sums); });
}

void sum_parts(std::span<const Values> parts, std::span<const uint8_t> additions,
               std::span<const Values> results, size_t first, size_t count) {
  switch (parts[0].type) {
    case DataType::Float32:
      return sum_into<float>(parts, additions, results, first, count);
    case DataType::Float16:
      return sum_into<Float16>(parts, additions, results, first, count);
    case DataType::BFloat16:
      return sum_into<BFloat16>(parts, additions, results, first, count);
    case DataType::Int32:
      return sum_into<uint32_t>(parts, additions, results, first, count);
    case DataType::Int64:
      return sum_into<uint64_t>(parts, additions, results, first, count);
  }
}

}  // namespace dlflow::runtime
