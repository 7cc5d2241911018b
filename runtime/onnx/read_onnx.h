#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/nn/model.h"
#include "runtime/onnx/input_scale.h"
#include "runtime/onnx/onnx_file.h"

/// Converts the network of an ONNX file to a model of dlflow that can be trained.
namespace dlflow::runtime {

/// A tensor of a layer as in a checkpoint: row-major.
struct ImportedTensor {
  std::vector<int64_t> shape;
  std::vector<float> numbers;
};

struct ImportedNetwork {
  Model model;                                    ///< `text` is its model file
  std::map<std::string, ImportedTensor> weights;  ///< every tensor of the model, by its name
  std::optional<InputScale> normalization;        ///< for the input, if the file has one
  std::vector<std::string> notes;                 ///< differences from the file, for users
};

/// Converts `file` to layers of dlflow, with equal scores, except for differences in `notes`.
/// Operations that only prepare others, like those on constants, become no layers; files for
/// inference have no dropout. Throws Error{InvalidInput} naming the first node that no layer can
/// represent.
/// \param name   of the model
/// \param input  (C,H,W), (F) or (T), if the file leaves them open
ImportedNetwork import_onnx(const OnnxFile& file, const std::string& name,
                            const std::optional<TensorShape>& input = {});

}  // namespace dlflow::runtime
