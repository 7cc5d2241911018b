#pragma once

#include <filesystem>

#include "runtime/checkpoint/safetensors.h"
#include "runtime/nn/model.h"
#include "runtime/onnx/input_scale.h"

/// Writes a trained network as an ONNX file (operator set 17) for other programs.
namespace dlflow::runtime {

/// Writes `path`. The graph takes `input`, the stored pixels as float (batch,C,H,W) or (batch,F),
/// which it normalises, or int64 tokens (batch,T), and returns `scores`. A network for classes of
/// texts with `mean_pool` also takes `lengths`, int64 (batch): the number of tokens of each text,
/// at least 1. Throws Error{NotFound} or Error{InvalidInput} naming the tensor that is missing or
/// does not fit the model; Error{InvalidInput} for a file of 2 GiB or more. \param weights   as in
/// a checkpoint \param metadata  for users of the file
void write_onnx(const std::filesystem::path& path, const Model& model, const Safetensors& weights,
                const InputScale& input, const SafetensorsMetadata& metadata);

}  // namespace dlflow::runtime
