#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/protobuf_reader.h"
#include "runtime/onnx/onnx_file.h"

/// Reads the numbers of ONNX's constants in all representations of the format.
namespace dlflow::runtime {

/// The floating-point and integer types of a constant's numbers.
enum class Element : int64_t {
  Float = 1,
  Uint8 = 2,
  Int8 = 3,
  Int32 = 6,
  Int64 = 7,
  Bool = 9,
  Float16 = 10,
  Double = 11,
  BFloat16 = 16
};

/// Returns the type for its number in a file. Throws Error{InvalidInput} for other types, with the
/// constant's name.
Element element_of(int64_t type, const std::string& name);

/// Adds the content of the field for 64-bit numbers to `tensor`. This and the next function throw
/// Error{Corrupt} if the bytes end within a number.
void add_doubles(const MessageField& field, const std::string& name, OnnxTensor& tensor);

/// The same for the raw bytes of all numbers, little-endian.
void add_raw(std::string_view raw, Element element, const std::string& name, OnnxTensor& tensor);

/// The same for integer fields, which also hold the bits of small floating-point types.
void add_whole_numbers(std::vector<int64_t> integers, Element element, OnnxTensor& tensor);

}  // namespace dlflow::runtime
