#include "base/error.h"
#include "base/protobuf.h"
#include "runtime/onnx/read_onnx.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/onnx_message.h"

using namespace dlflow;
using namespace dlflow::runtime;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const std::string_view content(reinterpret_cast<const char*>(data), size);
    const ImportedNetwork network = import_onnx(parse_onnx(content, "/nonexistent"), "fuzz");
    for (const auto& [name, tensor] : network.weights) {
      int64_t count = 1;
      for (const int64_t n : tensor.shape) count *= n;
      DLFLOW_CHECK(size_t(count) == tensor.numbers.size());
    }
  } catch (const Error&) {  // refused with the reason
  }
  return 0;
}

namespace {

std::string_view text(const char* characters) { return characters; }

Message node(const char* operation, const std::vector<const char*>& inputs, const char* output) {
  Message message;
  for (const char* input : inputs) message.add(1, text(input));
  return message.add(2, text(output)).add(4, text(operation));
}

Message list(const char* name, const std::vector<int64_t>& numbers) {
  return Message().add(1, text(name)).add(8, std::span(numbers)).add(20, uint64_t{7});
}

Message setting(const char* name, uint64_t number) {
  return Message().add(1, text(name)).add(3, number).add(20, uint64_t{2});
}

Message constant(const char* name, const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t n : shape) count *= n;
  const std::string raw(size_t(count) * 4, '\x3f');
  return Message()
      .add(1, std::span(shape))
      .add(2, uint64_t{1})
      .add(8, text(name))
      .add(9, std::string_view(raw));
}

Message port(const char* name, const std::vector<uint64_t>& sizes) {
  Message shape;
  for (const uint64_t size : sizes) shape.add(1, Message().add(1, size));
  return Message()
      .add(1, text(name))
      .add(2, Message().add(1, Message().add(1, uint64_t{1}).add(2, shape)));
}

/// An embedding, RMS normalisation, a residual, and a tied layer whose shape the file computes.
std::string text_model() {
  Message graph;
  graph.add(1, node("Gather", {"w", "x"}, "e"))
      .add(1, node("RMSNormalization", {"e", "scale"}, "r"))
      .add(1, node("MatMul", {"r", "i"}, "a"))
      .add(1, node("Add", {"a", "e"}, "g"))
      .add(1, node("Shape", {"g"}, "s"))
      .add(1, node("Gather", {"s", "one"}, "t"))
      .add(1, node("Mul", {"t", "one"}, "n"))
      .add(1, node("Unsqueeze", {"n", "one"}, "u"))
      .add(1, node("Concat", {"batch", "u", "open"}, "z"))
      .add(1, node("Reshape", {"g", "z"}, "f"))
      .add(1, node("Cast", {"f"}, "h").add(5, setting("to", 1)))
      .add(1, node("Transpose", {"w"}, "v"))
      .add(1, node("MatMul", {"h", "v"}, "y"))
      .add(5, constant("w", {5, 8}))
      .add(5, constant("scale", {8}))
      .add(5, constant("i", {8, 8}))
      .add(5, test::whole_numbers("one", {1}))
      .add(5, test::whole_numbers("batch", {0}))
      .add(5, test::whole_numbers("open", {-1}))
      .add(11, port("x", {1, 6}))
      .add(12, port("y", {1, 6, 5}));
  return Message().add(7, graph).add(8, Message().add(2, uint64_t{23})).bytes();
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  Message graph;
  graph
      .add(1, node("Conv", {"x", "w", "b"}, "c")
                  .add(5, list("pads", {1, 1, 1, 1}))
                  .add(5, list("strides", {2, 2})))
      .add(1, node("BatchNormalization", {"c", "b", "b", "b", "b"}, "n"))
      .add(1, node("GroupNormalization", {"n", "b", "b"}, "o").add(5, setting("num_groups", 1)))
      .add(1, node("Relu", {"o"}, "r"))
      .add(1, node("MaxPool", {"r"}, "m")
                  .add(5, list("kernel_shape", {2, 2}))
                  .add(5, list("strides", {2, 2})))
      .add(1, node("Sigmoid", {"m"}, "s"))
      .add(1, node("Mul", {"m", "s"}, "u"))
      .add(1, node("GlobalAveragePool", {"u"}, "g"))
      .add(1, node("Flatten", {"g"}, "f"))
      .add(1, node("MatMul", {"f", "v"}, "p"))
      .add(1, node("Add", {"p", "b"}, "y"))
      .add(5, constant("w", {2, 3, 3, 3}))
      .add(5, constant("b", {2}))
      .add(5, constant("v", {2, 2}))
      .add(11, port("x", {1, 3, 8, 8}))
      .add(12, port("y", {1, 2}));
  return {Message().add(7, graph).add(8, Message().add(2, uint64_t{17})).bytes(), text_model()};
}
