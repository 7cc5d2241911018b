#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/protobuf_reader.h"
#include "runtime/onnx/onnx_file.h"

/// The numbers of ONNX's constants, in each of the ways in which a file has them.
namespace dlflow::runtime {

/// The type of a constant's numbers, as far as they are floating-point or whole.
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

/// Of the number that stands for it in a file. Throws Error{InvalidInput} for other types, with the
/// constant's name.
Element element_of(int64_t type, const std::string& name);

/// Adds what the field for numbers of 64 bits holds to `tensor`. This and the next throw
/// Error{Corrupt} if the bytes end within a number.
void add_doubles(const MessageField& field, const std::string& name, OnnxTensor& tensor);

/// The same of the bytes of all numbers, little-endian.
void add_raw(std::string_view raw, Element element, const std::string& name, OnnxTensor& tensor);

/// The same of the fields for whole numbers, which hold the bits of small floating-point types,
/// too.
void add_whole_numbers(std::vector<int64_t> integers, Element element, OnnxTensor& tensor);

}  // namespace dlflow::runtime
