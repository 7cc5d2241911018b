#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/protobuf.h"
#include "runtime/checkpoint/safetensors.h"

/// Writes graphs in the ONNX format: https://onnx.ai/onnx/repo-docs/IR.html. Values have names.
namespace dlflow::runtime {

using OnnxAttribute = std::variant<int64_t, float, std::string, std::vector<int64_t>>;
using OnnxAttributes = std::map<std::string, OnnxAttribute>;

enum class OnnxType { Float = 1, Int64 = 7 };

/// A value and its sizes; the first dimension is open and called "batch".
struct OnnxValue {
  std::string name;
  OnnxType type = OnnxType::Float;
  std::vector<int64_t> sizes;  ///< without the batch
};

class OnnxGraph {
 public:
  OnnxGraph(const OnnxValue& input, OnnxValue output);

  /// Adds an input after the first. Returns its name, which begins with that of `input`.
  std::string add_input(OnnxValue input);

  /// Adds a node. Returns the result's name, which begins with `prefix`.
  std::string add(const std::string& prefix, const std::string& operation,
                  const std::vector<std::string>& inputs, const OnnxAttributes& attributes = {});

  /// Adds a constant, row-major. Returns its name.
  std::string add_floats(const std::string& prefix, const std::vector<int64_t>& shape,
                         std::span<const float> numbers);
  std::string add_integers(const std::string& prefix, const std::vector<int64_t>& numbers);

  /// Adds a tensor of weights, under its own name.
  void add_weight(const TensorView& tensor);

  /// Returns the content of the file, a ModelProto with the value `result` as output. Throws
  /// Error{InvalidInput} if it has 2 GiB or more.
  std::string finish(const std::string& name, const std::string& result,
                     const SafetensorsMetadata& metadata);

 private:
  std::string unique(const std::string& prefix);
  void add_node(const std::string& result, const std::string& operation,
                const std::vector<std::string>& inputs, const OnnxAttributes& attributes);
  void add_constant(const std::string& name, int type, std::span<const int64_t> shape,
                    std::span<const std::byte> bytes);

  OnnxValue output_;
  Message graph_;
  std::map<std::string, int> names_;  // number of uses of each prefix
};

}  // namespace dlflow::runtime
