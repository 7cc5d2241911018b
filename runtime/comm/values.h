#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/error.h"

namespace dlflow::runtime {

/// The types that collectives can add.
enum class DataType { Float32, Float16, BFloat16, Int32, Int64 };
inline constexpr std::array kDataTypes = {DataType::Float32, DataType::Float16, DataType::BFloat16,
                                          DataType::Int32, DataType::Int64};

/// The name in text: "fp32", "int64".
constexpr std::string_view name(DataType type) {
  constexpr std::array<std::string_view, kDataTypes.size()> kNames = {"fp32", "fp16", "bf16",
                                                                      "int32", "int64"};
  return kNames[size_t(type)];
}

/// Whether the type is half as wide as fp32, in which it is added.
constexpr bool is_half(DataType type) {
  return type == DataType::Float16 || type == DataType::BFloat16;
}

constexpr size_t size_of(DataType type) {
  return type == DataType::Int64 ? 8 : is_half(type) ? 2 : 4;
}

/// Numbers in memory that another object owns.
struct Values {
  std::byte* data = nullptr;
  size_t count = 0;
  DataType type = DataType::Float32;

  Values() = default;
  Values(std::byte* at, size_t number, DataType of) : data(at), count(number), type(of) {}
  Values(std::span<float> values)
      : data(reinterpret_cast<std::byte*>(values.data())), count(values.size()) {}
  Values(std::span<int32_t> values)
      : Values(reinterpret_cast<std::byte*>(values.data()), values.size(), DataType::Int32) {}
  Values(std::span<int64_t> values)
      : Values(reinterpret_cast<std::byte*>(values.data()), values.size(), DataType::Int64) {}

  std::span<std::byte> bytes() const { return {data, count * size_of(type)}; }

  /// For Float32 only.
  std::span<float> floats() const {
    DLFLOW_CHECK(type == DataType::Float32);
    return {reinterpret_cast<float*>(data), count};
  }

  Values subrange(size_t first, size_t number) const {
    return {data + first * size_of(type), number, type};
  }

  /// Returns share `index` of `parts` equal shares: their sizes differ by at most one.
  Values share(int index, int parts) const {
    const size_t begin = count * size_t(index) / size_t(parts);
    return subrange(begin, count * (size_t(index) + 1) / size_t(parts) - begin);
  }
};

}  // namespace dlflow::runtime
