#include "steps/checkpoint/export_model.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/file.h"
#include "base/parse_json.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/nn/model.h"
#include "runtime/onnx/write_onnx.h"
#include "steps/environment/place_file.h"

namespace dlflow::steps {
namespace {

namespace fs = std::filesystem;
using runtime::Checkpoint;
using runtime::InputScale;

const std::map<std::string, ExportFormat>& formats() {
  static const std::map<std::string, ExportFormat> words = {
      {"safetensors", ExportFormat::Safetensors}, {"onnx", ExportFormat::Onnx}};
  return words;
}

/// Throws unless the weights are in one file: PyTorch may have divided them among ranks.
void require_one_model(const fs::path& folder, const Json& state) {
  if (!state.is_object()) return;
  const Json sharded = state.value("sharded", Json::array());
  if (std::find(sharded.begin(), sharded.end(), "model") == sharded.end()) return;
  throw Error(
      Errc::InvalidInput,
      "export: the model in " + folder.string() +
          " is divided among ranks (.distcp files), so there is no file of its weights; have "
          "the script save a whole one, with full_state_dict of PyTorch");
}

/// Throws Error{Corrupt} if `state` is not that of a training run.
InputScale input_scale(const Json& state) {
  try {
    const Json& normalization = state.at("normalization");
    return {normalization.at("scale"), normalization.at("shift")};
  } catch (const Json::exception& error) {
    throw Error(Errc::Corrupt,
                "export: the checkpoint's state.json has no normalisation: " + reason_of(error));
  }
}

/// For whoever opens the file: what the weights' own file says, and what its input and scores are.
runtime::SafetensorsMetadata metadata_of(const Checkpoint& checkpoint,
                                         const runtime::Model& model) {
  runtime::SafetensorsMetadata metadata = checkpoint.model.metadata();
  const Json& state = checkpoint.state;
  metadata["input"] = runtime::to_string(model.input);
  input_scale(state);  // throws unless it is there
  if (!model.takes_tokens()) metadata["normalization"] = state.at("normalization").dump();
  if (state.contains("classes")) metadata["classes"] = state.at("classes").dump();
  if (state.contains("tokenizer")) metadata["tokenizer"] = state.at("tokenizer");
  return metadata;
}

void export_onnx(const Checkpoint& checkpoint, const fs::path& path) {
  const runtime::Model model = runtime::parse_model(checkpoint.info.model, "the model");
  runtime::write_onnx(path, model, checkpoint.model, input_scale(checkpoint.state),
                      metadata_of(checkpoint, model));
}

/// With the counters of PyTorch's BatchNorm, so that load_state_dict() misses nothing.
void export_safetensors(const Checkpoint& checkpoint, const fs::path& path) {
  const runtime::Model model = runtime::parse_model(checkpoint.info.model, "the model");
  std::vector<runtime::TensorView> tensors = checkpoint.model.tensors();
  const auto updates = int64_t(checkpoint.info.step);
  for (const runtime::Layer& layer : model.layers) {
    if (layer.kind != runtime::LayerKind::BatchNorm) continue;
    tensors.push_back(
        runtime::tensor_view<int64_t>(layer.name + ".num_batches_tracked", {}, {&updates, 1}));
  }
  runtime::write_safetensors(path, tensors, metadata_of(checkpoint, model));
}

}  // namespace

ExportFormat parse_export_format(const Json& value) {
  const auto found = formats().find(value.is_string() ? value.get<std::string>() : "");
  if (found != formats().end()) return found->second;
  throw Error(Errc::InvalidInput,
              "export: " + value.dump() + " is not a format; write safetensors or onnx");
}

std::string export_name(ExportFormat format) {
  return format == ExportFormat::Onnx ? "model.onnx" : "model.safetensors";
}

void export_model(const fs::path& folder, ExportFormat format, const fs::path& path) {
  const Checkpoint checkpoint = runtime::map_checkpoint(folder);
  require_one_model(folder, checkpoint.state);
  const bool of_a_script = checkpoint.info.model.empty();
  if (of_a_script && format == ExportFormat::Onnx) {
    throw Error(Errc::InvalidInput,
                "export: " + folder.string() +
                    " was saved by a Python script, which alone knows its network; write the "
                    "ONNX file there, with torch.onnx.export");
  }
  if (of_a_script) return place_file(folder / "model.safetensors", path);
  return format == ExportFormat::Onnx ? export_onnx(checkpoint, path)
                                      : export_safetensors(checkpoint, path);
}

}  // namespace dlflow::steps
