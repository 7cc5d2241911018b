#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

/// The content of an ONNX file: https://onnx.ai/onnx/repo-docs/IR.html. read_onnx.h interprets its
/// operations.
namespace dlflow::runtime {

/// A constant: numbers of one kind, row-major.
struct OnnxTensor {
  std::vector<int64_t> shape;  ///< empty: a scalar of one number
  std::vector<float> floats;   ///< for floating-point types, else empty
  std::vector<int64_t> integers;

  size_t size() const { return floats.empty() ? integers.size() : floats.size(); }
};

/// The value of an attribute.
using OnnxSetting =
    std::variant<int64_t, float, std::string, std::vector<int64_t>, std::vector<float>, OnnxTensor>;

/// An operation on values, which are identified by name.
struct OnnxNode {
  std::string name;
  std::string operation;            ///< "Conv"
  std::string domain;               ///< empty for ONNX's own operations
  std::vector<std::string> inputs;  ///< "": absent
  std::vector<std::string> outputs;
  std::map<std::string, OnnxSetting> settings;
};

/// An input or output of the graph.
struct OnnxPort {
  std::string name;
  bool is_integer = false;
  std::vector<int64_t> sizes;  ///< -1: any
};

struct OnnxFile {
  int64_t operator_set = 0;
  std::vector<OnnxPort> inputs;  ///< without constants
  std::vector<OnnxPort> outputs;
  std::vector<OnnxNode> nodes;  ///< each after the nodes that it reads
  std::map<std::string, OnnxTensor> constants;
};

/// Reads `path`, and the files beside it that hold its weights, if any. Throws Error: NotFound;
/// Corrupt, if it is no ONNX file or numbers are missing; InvalidInput for unsupported content,
/// such as functions and numbers that are neither floating-point nor integer.
OnnxFile read_onnx_file(const std::filesystem::path& path);

/// The same for a file's content. \param folder  with the files that hold its weights
OnnxFile parse_onnx(std::string_view content, const std::filesystem::path& folder);

}  // namespace dlflow::runtime
