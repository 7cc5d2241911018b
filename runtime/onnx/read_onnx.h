#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/nn/model.h"
#include "runtime/onnx/input_scale.h"
#include "runtime/onnx/onnx_file.h"

/// The network of an ONNX file as a model of dlflow, to be trained on.
namespace dlflow::runtime {

/// A tensor of a layer, as a checkpoint has it: row-major.
struct ImportedTensor {
  std::vector<int64_t> shape;
  std::vector<float> numbers;
};

struct ImportedNetwork {
  Model model;                                    ///< `text` is its model file
  std::map<std::string, ImportedTensor> weights;  ///< every tensor of the model, by its name
  std::optional<InputScale> normalization;        ///< of the input, if the file has one
  std::vector<std::string> notes;                 ///< what differs from the file, for a terminal
};

/// Understands `file` as layers of dlflow. Its scores are those of the file, but for what `notes`
/// say. Operations that only prepare others, as those on constants, become no layers; dropout has
/// none in a file that is to be run.
/// \param name   of the model
/// \param input  (C,H,W), (F) or (T), if the file leaves them open
/// Throws Error{InvalidInput} that names the first node which no layer of dlflow can be.
ImportedNetwork import_onnx(const OnnxFile& file, const std::string& name,
                            const std::optional<TensorShape>& input = {});

}  // namespace dlflow::runtime
