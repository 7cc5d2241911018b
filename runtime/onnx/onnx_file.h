#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

/// An ONNX file as it is written: https://onnx.ai/onnx/repo-docs/IR.html. What its operations mean
/// is read_onnx.h's matter.
namespace dlflow::runtime {

/// A constant: numbers of one kind, row-major.
struct OnnxTensor {
  std::vector<int64_t> shape;  ///< empty is a scalar: one number
  std::vector<float> floats;   ///< of floating-point types, or none
  std::vector<int64_t> integers;

  size_t size() const { return floats.empty() ? integers.size() : floats.size(); }
};

/// The value of an attribute.
using OnnxSetting =
    std::variant<int64_t, float, std::string, std::vector<int64_t>, std::vector<float>, OnnxTensor>;

/// An operation on values, which are known by names.
struct OnnxNode {
  std::string name;
  std::string operation;            ///< "Conv"
  std::string domain;               ///< empty for ONNX's own
  std::vector<std::string> inputs;  ///< "" is one that is left out
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
  std::vector<OnnxPort> inputs;  ///< without those that are constants
  std::vector<OnnxPort> outputs;
  std::vector<OnnxNode> nodes;  ///< each behind those that it reads
  std::map<std::string, OnnxTensor> constants;
};

/// Reads `path`, and the files beside it that hold its weights, if it says so. Throws Error:
/// NotFound; Corrupt, if it is no ONNX file or numbers are missing; InvalidInput for what dlflow
/// does not read, such as functions and numbers of other types than floating-point and whole.
OnnxFile read_onnx_file(const std::filesystem::path& path);

/// The same of a file's content. \param folder  of the files that hold its weights
OnnxFile parse_onnx(std::string_view content, const std::filesystem::path& folder);

}  // namespace dlflow::runtime
