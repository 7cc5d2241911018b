#pragma once

#include <filesystem>
#include <string>

#include "base/json.h"

namespace dlflow::steps {

/// Formats of a file with the network of a checkpoint alone.
enum class ExportFormat { Safetensors, Onnx };

/// The value of `export:`. Throws Error{InvalidInput} if it is not a word that stands for one.
ExportFormat parse_export_format(const Json& value);

/// "model.safetensors" or "model.onnx"
std::string export_name(ExportFormat format);

/// Writes the network of the checkpoint in `folder` to the new file `path`, with how its input is
/// normalised and what its classes are called.
/// Throws Error{InvalidInput} if the checkpoint is of a Python script and the format needs a
/// network, or if its model is divided among files.
void export_model(const std::filesystem::path& folder, ExportFormat format,
                  const std::filesystem::path& path);

}  // namespace dlflow::steps
