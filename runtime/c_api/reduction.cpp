#include "runtime/c_api/reduction.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <type_traits>

#include "base/bfloat16.h"
#include "base/error.h"
#include "base/float16.h"

namespace dlflow::runtime {
namespace {

constexpr std::array<std::string_view, 8> kOps = {"sum", "avg",  "product", "min",
                                                  "max", "band", "bor",     "bxor"};

/// Number of sums computed at a time, which fit in the L1 cache.
constexpr size_t kSumsAtATime = 1024;

float widened(Float16 value) { return widen(value); }
float widened(BFloat16 value) { return widen(value); }
template <typename T>
T widened(T value) {
  return value;
}
void narrow_to(Float16& into, float value) { into = narrow_to_float16(value); }
void narrow_to(BFloat16& into, float value) { into = narrow(value); }
template <typename T>
void narrow_to(T& into, T value) {
  into = value;
}

/// Integers wrap around, where signed overflow would be undefined.
template <typename T, typename Operation>
T wrapped(T a, T b, Operation operation) {
  if constexpr (std::is_integral_v<T>) {
    using Wide = std::common_type_t<std::make_unsigned_t<T>, unsigned>;
    return T(operation(Wide(a), Wide(b)));
  } else {
    return operation(a, b);
  }
}

template <typename T>
struct Reduce {
  using Wide = decltype(widened(T()));

  template <typename Operation>
  static void run(T* output, std::span<const std::byte* const> blocks, size_t count, bool average,
                  Operation operation) {
    std::array<Wide, kSumsAtATime> sums;
    for (size_t first = 0; first < count; first += kSumsAtATime) {
      const size_t size = std::min(kSumsAtATime, count - first);
      for (size_t block = 0; block < blocks.size(); ++block) {
        const T* const values = reinterpret_cast<const T*>(blocks[block]) + first;
        if (block == 0) {
          for (size_t i = 0; i < size; ++i) sums[i] = widened(values[i]);
        } else {
          for (size_t i = 0; i < size; ++i) sums[i] = operation(sums[i], widened(values[i]));
        }
      }
      if constexpr (std::is_floating_point_v<Wide>) {
        if (average)
          for (size_t i = 0; i < size; ++i) sums[i] /= Wide(blocks.size());
      }
      for (size_t i = 0; i < size; ++i) narrow_to(output[first + i], sums[i]);
    }
  }

  static void of(dlflow_op op, std::byte* output, std::span<const std::byte* const> blocks,
                 size_t count) {
    T* const to = reinterpret_cast<T*>(output);
    const auto reduce = [&](auto operation) {
      run(to, blocks, count, op == DLFLOW_AVG, operation);
    };
    switch (op) {
      case DLFLOW_SUM:
      case DLFLOW_AVG:
        return reduce(
            [](Wide a, Wide b) { return wrapped(a, b, [](auto x, auto y) { return x + y; }); });
      case DLFLOW_PRODUCT:
        return reduce(
            [](Wide a, Wide b) { return wrapped(a, b, [](auto x, auto y) { return x * y; }); });
      case DLFLOW_MIN:
        return reduce([](Wide a, Wide b) { return b < a ? b : a; });
      case DLFLOW_MAX:
        return reduce([](Wide a, Wide b) { return a < b ? b : a; });
      case DLFLOW_BAND:
      case DLFLOW_BOR:
      case DLFLOW_BXOR:
        if constexpr (std::is_integral_v<Wide>) {
          if (op == DLFLOW_BAND) return reduce([](Wide a, Wide b) { return Wide(a & b); });
          if (op == DLFLOW_BOR) return reduce([](Wide a, Wide b) { return Wide(a | b); });
          return reduce([](Wide a, Wide b) { return Wide(a ^ b); });
        }
        break;
    }
    DLFLOW_CHECK(false);  // require_reduction() rejects this
  }
};

/// The operation on bytes that are 0 or 1.
dlflow_op op_of_bool(dlflow_op op) {
  if (op == DLFLOW_SUM || op == DLFLOW_MAX) return DLFLOW_BOR;
  return op == DLFLOW_PRODUCT || op == DLFLOW_MIN ? DLFLOW_BAND : op;
}

void reduce_bools(dlflow_op op, std::byte* output, std::span<const std::byte* const> blocks,
                  size_t count) {
  Reduce<uint8_t>::of(op_of_bool(op), output, blocks, count);
}

struct TypeFacts {
  std::string_view name;
  size_t size;
  bool is_float;
  void (*reduce)(dlflow_op, std::byte*, std::span<const std::byte* const>, size_t);
};

/// In the order of dlflow_type.
constexpr std::array<TypeFacts, 10> kTypes = {{{"fp32", 4, true, Reduce<float>::of},
                                               {"fp64", 8, true, Reduce<double>::of},
                                               {"fp16", 2, true, Reduce<Float16>::of},
                                               {"bf16", 2, true, Reduce<BFloat16>::of},
                                               {"int8", 1, false, Reduce<int8_t>::of},
                                               {"uint8", 1, false, Reduce<uint8_t>::of},
                                               {"int32", 4, false, Reduce<int32_t>::of},
                                               {"int64", 8, false, Reduce<int64_t>::of},
                                               {"bool", 1, false, reduce_bools},
                                               {"int16", 2, false, Reduce<int16_t>::of}}};

}  // namespace

size_t size_of(dlflow_type type) { return kTypes.at(size_t(type)).size; }
std::string_view name(dlflow_type type) { return kTypes.at(size_t(type)).name; }
std::string_view name(dlflow_op op) { return kOps.at(size_t(op)); }

void require_reduction(dlflow_type type, dlflow_op op) {
  if (size_t(type) >= kTypes.size()) {
    throw Error(Errc::InvalidInput, "there is no type number " + std::to_string(int(type)));
  }
  if (size_t(op) >= kOps.size()) {
    throw Error(Errc::InvalidInput, "there is no operation number " + std::to_string(int(op)));
  }
  const bool is_bitwise = op == DLFLOW_BAND || op == DLFLOW_BOR || op == DLFLOW_BXOR;
  const bool is_float = kTypes[size_t(type)].is_float;
  if ((is_bitwise && is_float) || (op == DLFLOW_AVG && !is_float)) {
    throw Error(Errc::InvalidInput, "'" + std::string(name(op)) + "' is not an operation of " +
                                        std::string(name(type)) +
                                        (is_float ? " numbers: they have no bits to combine"
                                                  : " numbers: use a sum, and divide it"));
  }
}

void reduce_blocks(dlflow_type type, dlflow_op op, std::byte* output,
                   std::span<const std::byte* const> blocks, size_t count) {
  kTypes.at(size_t(type)).reduce(op, output, blocks, count);
}

}  // namespace dlflow::runtime
