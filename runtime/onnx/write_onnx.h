#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/checkpoint/safetensors.h"
#include "runtime/nn/model.h"
#include "runtime/onnx/input_scale.h"

/// A trained network as an ONNX file (operator set 17), which other programs run.
namespace dlflow::runtime {

/// Writes `path`. The graph takes `input`, the pixels as they are stored, as float (batch,C,H,W)
/// or (batch,F), or int64 tokens (batch,T), and normalises them; it gives `scores`. One of
/// classes of texts with `mean_pool` takes `lengths` besides, int64 (batch): how many tokens each
/// text has, from 1 on. \param weights   as a checkpoint has them \param metadata  for whoever
/// opens the file Throws Error{NotFound} or Error{InvalidInput} naming the tensor that is not there
/// or does not fit the model; Error{InvalidInput} if the file would have 2 GiB.
void write_onnx(const std::filesystem::path& path, const Model& model, const Safetensors& weights,
                const InputScale& input, const SafetensorsMetadata& metadata);

}  // namespace dlflow::runtime
