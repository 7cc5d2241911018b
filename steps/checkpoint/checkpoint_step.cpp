#include "steps/checkpoint/checkpoint_step.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/parse_json.h"
#include "base/remove_tree.h"
#include "base/sha256.h"
#include "base/text.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/nn/model.h"
#include "runtime/onnx/write_onnx.h"
#include "steps/checkpoint/selection.h"
#include "steps/environment/place_file.h"
#include "steps/environment/step_environment.h"

namespace dlflow::steps {
namespace {

namespace fs = std::filesystem;

using runtime::Checkpoint;
using runtime::InputScale;

/// Throws unless the weights are in one file; PyTorch may have sharded them over ranks.
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

/// Throws Error{Corrupt} if `state` does not come from a training run.
InputScale input_scale(const Json& state) {
  try {
    const Json& normalization = state.at("normalization");
    return {normalization.at("scale"), normalization.at("shift")};
  } catch (const Json::exception& error) {
    throw Error(Errc::Corrupt,
                "export: the checkpoint's state.json has no normalisation: " + reason_of(error));
  }
}

/// Describes the exported file to its users: the metadata of the weights, the input and the scores.
runtime::SafetensorsMetadata metadata_of(const Checkpoint& checkpoint,
                                         const runtime::Model& model) {
  runtime::SafetensorsMetadata metadata = checkpoint.model.metadata();
  const Json& state = checkpoint.state;
  metadata["input"] = runtime::to_string(model.input);
  input_scale(state);  // throws if it is missing
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

/// Includes the counters of PyTorch's BatchNorm, so that load_state_dict() misses no key.
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

/// Parses `export:`. Throws Error{InvalidInput} for an unknown format.
std::string parse_export_format(const Json& value) {
  if (value == "safetensors" || value == "onnx") return value;
  throw Error(Errc::InvalidInput,
              "export: " + value.dump() + " is not a format; write safetensors or onnx");
}

/// Writes the network of the checkpoint in `folder` to the new file `path`, with the normalisation
/// of its input and the names of its classes. Throws Error{InvalidInput} if the checkpoint comes
/// from a Python script and the format needs a network, or if its model is in several files.
void export_model(const fs::path& folder, const std::string& format, const fs::path& path) {
  const Checkpoint checkpoint = runtime::map_checkpoint(folder);
  require_one_model(folder, checkpoint.state);
  const bool of_a_script = checkpoint.info.model.empty();
  if (of_a_script && format == "onnx") {
    throw Error(
        Errc::InvalidInput,
        "export: " + folder.string() +
            " was saved by a Python script, and only that script defines its network; write the "
            "ONNX file there, with torch.onnx.export");
  }
  if (of_a_script) return place_file(folder / "model.safetensors", path);
  return format == "onnx" ? export_onnx(checkpoint, path) : export_safetensors(checkpoint, path);
}

using runtime::CheckpointInfo;

/// The step's `with:`.
struct CheckpointRequest {
  std::vector<fs::path> from;
  std::string select = "latest";
  bool verify = true;    ///< every candidate, not only the selected checkpoint
  size_t prune = 0;      ///< number to keep in each folder; 0: all
  std::string exported;  ///< the format of the network's file; empty: none
};

struct Candidates {
  std::vector<fs::path> folders;
  std::vector<fs::path> from;         ///< for each folder, its entry of `from:`
  std::vector<CheckpointInfo> infos;  ///< for each folder
};

std::vector<fs::path> paths_from(const Json& from) {
  std::vector<fs::path> paths;
  for (const Json& path : from.is_array() ? from : Json::array({from})) {
    if (!path.is_string()) {
      throw Error(Errc::InvalidInput,
                  "from: must be a folder of checkpoints, or a list of folders");
    }
    paths.emplace_back(path.get<std::string>());
  }
  if (paths.empty()) throw Error(Errc::InvalidInput, "from: names no folder of checkpoints");
  return paths;
}

CheckpointRequest parse_checkpoint_step(const Json& with) {
  CheckpointRequest request;
  request.from = paths_from(with.value("from", Json()));
  request.select = with.value("select", request.select);
  request.verify = with.value("verify", request.verify);
  if (with.contains("export")) request.exported = parse_export_format(with.at("export"));
  const Json prune = with.value("prune", Json());
  if (!prune.is_null()) {
    if (!prune.is_number_unsigned() || prune == 0) {
      throw Error(
          Errc::InvalidInput,
          "prune: must be the number of checkpoints to keep, at least 1, not " + prune.dump());
    }
    request.prune = prune;
  }
  return request;
}

bool is_checkpoint(const fs::path& folder) { return fs::exists(folder / "manifest.json"); }

/// The checkpoints below `from`, or `from` itself if it is one.
std::vector<fs::path> checkpoints_in(const fs::path& from) {
  if (is_checkpoint(from)) return {from};
  if (!fs::is_directory(from)) {
    throw Error(Errc::NotFound, "from: there is no folder " + from.string());
  }
  return runtime::list_checkpoints(from);
}

/// Finds all candidates; prints why it passes over others.
Candidates find_candidates(const CheckpointRequest& request) {
  Candidates candidates;
  size_t num_rejected = 0;
  for (const fs::path& from : request.from) {
    for (const fs::path& folder : checkpoints_in(from)) {
      try {
        candidates.infos.push_back(request.verify ? runtime::verify_checkpoint(folder)
                                                  : runtime::read_checkpoint_info(folder));
        candidates.folders.push_back(folder);
        candidates.from.push_back(from);
      } catch (const Error& error) {
        ++num_rejected;
        std::printf("skipped: %s\n", escaped_lines(error.what()).c_str());
      }
    }
  }
  if (candidates.folders.empty()) {
    throw Error(
        Errc::NotFound,
        "there is no valid checkpoint in " + request.from.front().string() +
            (request.from.size() > 1 ? " or the other folders of from:" : "") +
            (num_rejected > 0 ? "; " + std::to_string(num_rejected) + " damaged, named above"
                              : ""));
  }
  return candidates;
}

/// \param from  the entry of `from:` that holds it, recorded as its origin.
void publish(const fs::path& chosen, const fs::path& from, const StepEnvironment& environment,
             const std::string& exported) {
  const fs::path folder = environment.outputs / "checkpoint";
  remove_tree(folder);  // left by an earlier pass
  make_directories(folder);
  for (const auto& entry : fs::directory_iterator(chosen)) {
    place_file(entry.path(), folder / entry.path().filename());
  }
  Json outputs = {{"checkpoint", {{"value", "checkpoint"}, {"from", from.string()}}}};
  if (!exported.empty()) {
    const std::string name = "model." + exported;
    const fs::path file = environment.outputs / name;
    remove_tree(file);
    export_model(chosen, exported, file);
    outputs["export"] = {{"value", name}, {"sha256", sha256_file(file)}};
  }
  write_outputs(environment, outputs);
}

/// Keeps only the newest `keep` of each folder, and `chosen`.
void prune(const Candidates& candidates, const fs::path& chosen, size_t keep) {
  std::map<fs::path, size_t> num_kept;
  size_t num_removed = 0;
  for (size_t i = candidates.folders.size(); i-- > 0;) {  // newest last in each folder
    const fs::path& folder = candidates.folders[i];
    if (num_kept[folder.parent_path()]++ < keep || folder == chosen) continue;
    runtime::remove_checkpoint(folder);
    ++num_removed;
  }
  if (num_removed > 0) std::printf("removed %zu older checkpoints\n", num_removed);
}

std::string reason(const Selection& selection, const CheckpointInfo& chosen) {
  if (selection.by == Selection::By::Latest) return "it is the latest";
  char value[32];
  std::snprintf(value, sizeof value, "%.6g", chosen.metrics.at(selection.metric));
  return selection.metric + " " + value + " is the " +
         (selection.by == Selection::By::Max ? "largest" : "smallest");
}

/// The step, the epoch and every finite metric.
Json summary_of(const CheckpointInfo& info) {
  Json summary = {{"step", info.step}, {"epoch", info.epoch}};
  for (const auto& [name, value] : info.metrics) {
    if (std::isfinite(value)) summary[name] = value;
  }
  return summary;
}

int choose_and_publish() {
  const StepEnvironment environment = read_step_environment();
  const CheckpointRequest request = parse_checkpoint_step(environment.with);
  const Selection selection = parse_selection(request.select);
  const Candidates candidates = find_candidates(request);
  const size_t index = select_checkpoint(candidates.infos, selection);
  const fs::path& chosen = candidates.folders[index];
  const CheckpointInfo info =
      request.verify ? candidates.infos[index] : runtime::verify_checkpoint(chosen);

  publish(chosen, candidates.from[index], environment, request.exported);
  write_summary(environment, summary_of(info));
  std::printf("chose %s among %zu: %s\n", chosen.c_str(), candidates.folders.size(),
              reason(selection, info).c_str());
  if (request.prune > 0) prune(candidates, chosen, request.prune);
  return 0;
}

}  // namespace

int checkpoint_main() {
  return run_step([] {
    try {
      return choose_and_publish();
    } catch (const Json::type_error& error) {
      throw Error(Errc::InvalidInput,
                  std::string("with: has a value of the wrong type: ") + error.what());
    }
  });
}

}  // namespace dlflow::steps
