#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/protobuf.h"
#include "runtime/onnx/read_onnx.h"

/// ONNX files made by tests, and the results of importing them.
namespace dlflow::test {

using runtime::ImportedNetwork;

inline Message node(const std::string& operation, const std::vector<std::string>& inputs,
                    const std::string& output) {
  Message message;
  for (const std::string& input : inputs) message.add(1, std::string_view(input));
  return message.add(2, std::string_view(output)).add(4, std::string_view(operation));
}

inline Message port(const std::string& name, const std::vector<int64_t>& sizes, uint64_t type = 1) {
  Message shape;
  for (const int64_t size : sizes) {
    shape.add(
        1, size < 0 ? Message().add(2, std::string_view("any")) : Message().add(1, uint64_t(size)));
  }
  const Message tensor = Message().add(1, type).add(2, shape);
  return Message().add(1, std::string_view(name)).add(2, Message().add(1, tensor));
}

/// A constant with these numbers.
inline Message numbers_of(const std::string& name, const std::vector<int64_t>& shape,
                          const std::vector<float>& numbers) {
  const std::string_view raw(reinterpret_cast<const char*>(numbers.data()), numbers.size() * 4);
  return Message()
      .add(1, std::span(shape))
      .add(2, uint64_t{1})
      .add(8, std::string_view(name))
      .add(9, raw);
}

/// A constant whose numbers are all 0.5.
inline Message floats(const std::string& name, const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return numbers_of(name, shape, std::vector<float>(size_t(count), 0.5f));
}

/// A file whose output is y.
inline std::string file_of(const std::vector<Message>& nodes, const std::vector<Message>& constants,
                           const std::vector<int64_t>& input, uint64_t operator_set = 17,
                           const std::string& input_name = "x") {
  Message graph;
  for (const Message& each : nodes) graph.add(1, each);
  for (const Message& each : constants) graph.add(5, each);
  graph.add(11, port(input_name, input)).add(12, port("y", {-1, 2}));
  return Message().add(7, graph).add(8, Message().add(2, operator_set)).bytes();
}

/// Adds a setting to a node: a list of whole numbers, a whole number, a number, a text, or a
/// tensor.
inline Message with(Message message, const char* name, std::vector<int64_t> numbers) {
  return message.add(5, Message().add(1, std::string_view(name)).add(8, std::span(numbers)));
}

inline Message with(Message message, const char* name, int number) {
  return message.add(5, Message().add(1, std::string_view(name)).add(3, uint64_t(int64_t(number))));
}

inline Message with(Message message, const char* name, float number) {
  return message.add(5, Message().add(1, std::string_view(name)).add(2, number));
}

inline Message with(Message message, const char* name, const char* text) {
  return message.add(5, Message().add(1, std::string_view(name)).add(4, std::string_view(text)));
}

inline Message with(Message message, const char* name, const Message& tensor) {
  return message.add(5, Message().add(1, std::string_view(name)).add(5, tensor));
}

inline ImportedNetwork imported(const std::string& content) {
  return runtime::import_onnx(runtime::parse_onnx(content, "."), "net");
}

/// The reason why the file is not imported; "none" if it is.
inline std::string refusal(const std::string& content) {
  try {
    imported(content);
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

}  // namespace dlflow::test
