#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/protobuf.h"

namespace dlflow::test {

/// ONNX's TensorProto of a list of integers.
inline Message whole_numbers(std::string_view name, const std::vector<int64_t>& numbers) {
  constexpr uint64_t kInt64 = 7;
  const std::vector<int64_t> shape = {int64_t(numbers.size())};
  return Message().add(1, std::span(shape)).add(2, kInt64).add(7, std::span(numbers)).add(8, name);
}

}  // namespace dlflow::test
