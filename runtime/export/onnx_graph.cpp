#include "runtime/export/onnx_graph.h"

#include "base/error.h"

namespace dlflow::runtime {
namespace {

// Numbers of fields in onnx.proto.
enum ModelField { kIrVersion = 1, kProducer = 2, kGraph = 7, kOpsets = 8, kMetadata = 14 };
enum GraphField { kNodes = 1, kGraphName = 2, kInitializers = 5, kInputs = 11, kOutputs = 12 };
enum NodeField { kNodeInputs = 1, kNodeOutputs = 2, kNodeName = 3, kOperation = 4, kAttributes = 5 };
enum AttributeField { kName = 1, kFloat = 2, kInteger = 3, kText = 4, kIntegers = 8, kKind = 20 };
enum AttributeKind { kIsFloat = 1, kIsInteger = 2, kIsText = 3, kIsIntegers = 7 };
enum TensorField { kSizes = 1, kDataType = 2, kTensorName = 8, kRawData = 9 };

constexpr int kIr = 8;                               // of ONNX 1.12
constexpr int kOpset = 17;                           // the first with LayerNormalization
constexpr size_t kMaxBytes = (size_t{1} << 31) - 1;  // of a protobuf message

ProtobufMessage attribute_message(const std::string& name, const OnnxAttribute& value) {
  ProtobufMessage message;
  message.add_bytes(kName, name);
  if (const auto* number = std::get_if<float>(&value)) {
    message.add_float(kFloat, *number);
    message.add_integer(kKind, kIsFloat);
  } else if (const auto* integer = std::get_if<int64_t>(&value)) {
    message.add_integer(kInteger, *integer);
    message.add_integer(kKind, kIsInteger);
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    message.add_bytes(kText, *text);
    message.add_integer(kKind, kIsText);
  } else {
    message.add_integers(kIntegers, std::get<std::vector<int64_t>>(value));
    message.add_integer(kKind, kIsIntegers);
  }
  return message;
}

/// A TensorShapeProto.Dimension.
ProtobufMessage dimension(int64_t size) {
  ProtobufMessage message;
  message.add_integer(1, size);
  return message;
}

ProtobufMessage any_dimension(const std::string& name) {
  ProtobufMessage message;
  message.add_bytes(2, name);
  return message;
}

ProtobufMessage value_message(const OnnxValue& value) {
  ProtobufMessage shape;
  shape.add_message(1, any_dimension("batch"));
  for (const int64_t size : value.sizes) shape.add_message(1, dimension(size));
  ProtobufMessage tensor;
  tensor.add_integer(1, int64_t(value.type));
  tensor.add_message(2, shape);
  ProtobufMessage type;
  type.add_message(1, tensor);
  ProtobufMessage message;
  message.add_bytes(1, value.name);
  message.add_message(2, type);
  return message;
}

}  // namespace

OnnxGraph::OnnxGraph(OnnxValue input, OnnxValue output)
    : input_(std::move(input)), output_(std::move(output)) {
  for (const OnnxValue* value : {&input_, &output_}) unique(value->name);
}

std::string OnnxGraph::unique(const std::string& prefix) {
  const int count = names_[prefix]++;
  return count == 0 ? prefix : prefix + "/" + std::to_string(count);
}

std::string OnnxGraph::add(const std::string& prefix, const std::string& operation,
                           const std::vector<std::string>& inputs,
                           const OnnxAttributes& attributes) {
  const std::string result = unique(prefix);
  add_node(result, operation, inputs, attributes);
  return result;
}

void OnnxGraph::add_node(const std::string& result, const std::string& operation,
                         const std::vector<std::string>& inputs, const OnnxAttributes& attributes) {
  ProtobufMessage node;
  for (const std::string& input : inputs) node.add_bytes(kNodeInputs, input);
  node.add_bytes(kNodeOutputs, result);
  node.add_bytes(kNodeName, result);
  node.add_bytes(kOperation, operation);
  for (const auto& [name, value] : attributes) {
    node.add_message(kAttributes, attribute_message(name, value));
  }
  graph_.add_message(kNodes, node);
}

std::string OnnxGraph::add_floats(const std::string& prefix, const std::vector<int64_t>& shape,
                                  std::span<const float> numbers) {
  const std::string name = unique(prefix);
  add_constant(name, int(OnnxType::Float), shape, std::as_bytes(numbers));
  return name;
}

std::string OnnxGraph::add_integers(const std::string& prefix,
                                    const std::vector<int64_t>& numbers) {
  const std::string name = unique(prefix);
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
  ProtobufMessage tensor;
  tensor.add_integers(kSizes, shape);
  tensor.add_integer(kDataType, type);
  tensor.add_bytes(kTensorName, name);
  tensor.add_bytes(kRawData, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  graph_.add_message(kInitializers, tensor);
}

std::string OnnxGraph::finish(const std::string& name, const std::string& result,
                              const SafetensorsMetadata& metadata) {
  add_node(output_.name, "Identity", {result}, {});
  graph_.add_bytes(kGraphName, name);
  graph_.add_message(kInputs, value_message(input_));
  graph_.add_message(kOutputs, value_message(output_));
  ProtobufMessage opset;
  opset.add_bytes(1, "");
  opset.add_integer(2, kOpset);
  ProtobufMessage model;
  model.add_integer(kIrVersion, kIr);
  model.add_bytes(kProducer, "dlflow");
  model.add_message(kGraph, graph_);
  model.add_message(kOpsets, opset);
  for (const auto& [key, value] : metadata) {
    ProtobufMessage entry;
    entry.add_bytes(1, key);
    entry.add_bytes(2, value);
    model.add_message(kMetadata, entry);
  }
  if (model.bytes().size() > kMaxBytes) {
    throw Error(Errc::InvalidInput,
                "the weights take 2 GiB or more, which an ONNX file cannot hold; export "
                "safetensors");
  }
  return model.bytes();
}

}  // namespace dlflow::runtime
