#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/collectives/vector_ops.h"
#include "runtime/comm/values.h"

namespace dlflow::test {

/// Returns `numbers` as bytes of `type`.
inline std::vector<std::byte> as_type(runtime::DataType type, std::vector<float> numbers) {
  std::vector<std::byte> bytes(numbers.size() * runtime::size_of(type));
  runtime::convert({bytes.data(), numbers.size(), type}, std::span(numbers));
  return bytes;
}

}  // namespace dlflow::test
