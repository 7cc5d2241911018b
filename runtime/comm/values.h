#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace dlflow::runtime {

/// What collectives can add.
enum class DataType { Float32, Float16, BFloat16, Int32, Int64 };

constexpr size_t size_of(DataType type) {
  return type == DataType::Int64                                   ? 8
         : type == DataType::Float16 || type == DataType::BFloat16 ? 2
                                                                   : 4;
}

/// Numbers in memory that somebody else owns.
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

  Values subrange(size_t first, size_t number) const {
    return {data + first * size_of(type), number, type};
  }

  /// Of `parts` equal shares the one with this `index`: they differ by at most one in size.
  Values share(int index, int parts) const {
    const size_t begin = count * size_t(index) / size_t(parts);
    return subrange(begin, count * (size_t(index) + 1) / size_t(parts) - begin);
  }
};

}  // namespace dlflow::runtime
