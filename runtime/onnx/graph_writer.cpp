#include "runtime/onnx/graph_writer.h"

#include "base/error.h"

namespace dlflow::runtime {
namespace {

// Field numbers in onnx.proto.
constexpr int kIrVersion = 1, kProducer = 2, kGraph = 7, kOpsets = 8, kMetadata = 14;
constexpr int kNodes = 1, kGraphName = 2, kInitializers = 5, kInputs = 11, kOutputs = 12;
constexpr int kNodeInputs = 1, kNodeOutputs = 2, kNodeName = 3, kOperation = 4, kAttributes = 5;
constexpr int kName = 1, kFloat = 2, kInteger = 3, kText = 4, kIntegers = 8, kKind = 20;
constexpr int kIsFloat = 1, kIsInteger = 2, kIsText = 3, kIsIntegers = 7;
constexpr int kSizes = 1, kDataType = 2, kTensorName = 8, kRawData = 9;

constexpr int kIr = 8;                                      // IR version of ONNX 1.12
constexpr int kOpset = 17;                                  // first with LayerNormalization
constexpr size_t kMaxMessageBytes = (size_t{1} << 31) - 1;  // limit of protobuf messages

Message attribute_message(const std::string& name, const OnnxAttribute& value) {
  Message message;
  message.add(kName, std::string_view(name));
  if (const auto* number = std::get_if<float>(&value)) {
    return message.add(kFloat, *number).add(kKind, uint64_t{kIsFloat});
  }
  if (const auto* integer = std::get_if<int64_t>(&value)) {
    return message.add(kInteger, uint64_t(*integer)).add(kKind, uint64_t{kIsInteger});
  }
  if (const auto* text = std::get_if<std::string>(&value)) {
    return message.add(kText, std::string_view(*text)).add(kKind, uint64_t{kIsText});
  }
  const std::span<const int64_t> integers = std::get<std::vector<int64_t>>(value);
  return message.add(kIntegers, integers).add(kKind, uint64_t{kIsIntegers});
}

/// Returns a ValueInfoProto; the first dimension has a name instead of a size.
Message value_message(const OnnxValue& value) {
  Message shape;
  shape.add(1, Message().add(2, std::string_view("batch")));
  for (const int64_t size : value.sizes) shape.add(1, Message().add(1, uint64_t(size)));
  const Message tensor = Message().add(1, uint64_t(value.type)).add(2, shape);
  return Message().add(1, std::string_view(value.name)).add(2, Message().add(1, tensor));
}

}  // namespace

OnnxGraph::OnnxGraph(const OnnxValue& input, OnnxValue output) : output_(std::move(output)) {
  add_input(input);
  unique(output_.name);
}

std::string OnnxGraph::add_input(OnnxValue input) {
  input.name = unique(input.name);
  graph_.add(kInputs, value_message(input));
  return input.name;
}

std::string OnnxGraph::unique(const std::string& prefix) {
  const int count = names_[prefix]++;
  return count == 0 ? prefix : prefix + "/" + std::to_string(count);
}

std::string OnnxGraph::add(const std::string& prefix, const std::string& operation,
                           const std::vector<std::string>& inputs,
                           const OnnxAttributes& attributes) {
  std::string result = unique(prefix);
  add_node(result, operation, inputs, attributes);
  return result;
}

void OnnxGraph::add_node(const std::string& result, const std::string& operation,
                         const std::vector<std::string>& inputs, const OnnxAttributes& attributes) {
  Message node;
  for (const std::string& input : inputs) node.add(kNodeInputs, std::string_view(input));
  node.add(kNodeOutputs, std::string_view(result));
  node.add(kNodeName, std::string_view(result));
  node.add(kOperation, std::string_view(operation));
  for (const auto& [name, value] : attributes) {
    node.add(kAttributes, attribute_message(name, value));
  }
  graph_.add(kNodes, node);
}

std::string OnnxGraph::add_floats(const std::string& prefix, const std::vector<int64_t>& shape,
                                  std::span<const float> numbers) {
  std::string name = unique(prefix);
  add_constant(name, int(OnnxType::Float), shape, std::as_bytes(numbers));
  return name;
}

std::string OnnxGraph::add_integers(const std::string& prefix,
                                    const std::vector<int64_t>& numbers) {
  std::string name = unique(prefix);
  const int64_t size = int64_t(numbers.size());
  add_constant(name, int(OnnxType::Int64), {&size, 1}, std::as_bytes(std::span(numbers)));
  return name;
}

void OnnxGraph::add_weight(const TensorView& tensor) {
  const std::vector<int64_t> shape(tensor.shape.begin(), tensor.shape.end());
  add_constant(unique(tensor.name), int(OnnxType::Float), shape, tensor.bytes);
}

void OnnxGraph::add_constant(const std::string& name, int type, std::span<const int64_t> shape,
                             std::span<const std::byte> bytes) {
  const std::string_view data(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  graph_.add(kInitializers, Message()
                                .add(kSizes, shape)
                                .add(kDataType, uint64_t(type))
                                .add(kTensorName, std::string_view(name))
                                .add(kRawData, data));
}

std::string OnnxGraph::finish(const std::string& name, const std::string& result,
                              const SafetensorsMetadata& metadata) {
  add_node(output_.name, "Identity", {result}, {});
  graph_.add(kGraphName, std::string_view(name));
  graph_.add(kOutputs, value_message(output_));
  Message model;
  model.add(kIrVersion, uint64_t{kIr})
      .add(kProducer, std::string_view("dlflow"))
      .add(kGraph, graph_)
      .add(kOpsets, Message().add(1, std::string_view()).add(2, uint64_t{kOpset}));
  for (const auto& [key, value] : metadata) {
    model.add(kMetadata, Message().add(1, std::string_view(key)).add(2, std::string_view(value)));
  }
  if (model.bytes().size() > kMaxMessageBytes) {
    throw Error(Errc::InvalidInput,
                "the weights take 2 GiB or more, which an ONNX file cannot hold; export "
                "safetensors");
  }
  return model.bytes();
}

}  // namespace dlflow::runtime
