#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/checkpoint/safetensors.h"

/// The JSON header of a safetensors file, as text and as values.
namespace dlflow::runtime {

/// One tensor of the header. `begin` and `end` count bytes from the end of the header.
struct HeaderEntry {
  std::string name;
  DType dtype = DType::F32;
  std::vector<uint64_t> shape;
  uint64_t begin = 0;
  uint64_t end = 0;
};

struct SafetensorsHeader {
  SafetensorsMetadata metadata;
  std::vector<HeaderEntry> entries;  ///< in the order of the text
};

/// Returns the text of `header`, padded with spaces to a multiple of 8 bytes.
std::string format_header(const SafetensorsHeader& header);

/// The inverse. Accepts only the grammar of the format: every key once, numbers that fit 64 bits,
/// no unknown keys. Throws Error{Corrupt}: "SOURCE: tensor 'w': ...".
SafetensorsHeader parse_header(std::string_view text, const std::string& source);

/// Returns the bytes of a tensor of `dtype` and `shape`, or nothing on overflow.
std::optional<uint64_t> tensor_bytes(DType dtype, const std::vector<uint64_t>& shape);

}  // namespace dlflow::runtime
