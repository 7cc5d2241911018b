#include "engine/init/training.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <utility>

#include "engine/init/workflow_text.h"
#include "runtime/checkpoint/safetensors_header.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kConvolutionBlock = R"(blocks:
  stage:
    - conv2d: {name: conv, channels: $channels, kernel: 3, padding: 1, bias: false}
    - batch_norm: {name: bn}
    - relu
    - max_pool: {kernel: 2}
)";

/// As many stages as halve the picture to 2 pixels, three at most.
std::string convolutions(const runtime::ImageShape& shape) {
  std::string text;
  uint32_t side = std::min(shape.height, shape.width);
  for (int stage = 1; stage <= 3 && side >= 4; ++stage, side /= 2) {
    text += "  - stage: {name: stage" + std::to_string(stage) +
            ", channels: " + std::to_string(8 << stage) + "}\n";
  }
  return text;
}

/// Few samples are seen more often, in smaller steps.
struct Pace {
  size_t epochs, batch;
};

Pace pace_of(size_t samples) {
  constexpr size_t kSteps = 2000;
  const size_t batch = samples < 5000 ? std::clamp<size_t>(samples / 2, 1, 32) : 128;
  return {std::clamp<size_t>(kSteps * batch / std::max<size_t>(samples, 1), 5, 40), batch};
}

std::string training_step(const TrainingData& data, const std::string& walltime,
                          const std::string& model, const std::string& scale,
                          const std::string& place) {
  const std::string scaled =
      scale.empty() ? ""
                    : "      start_from: " + yaml_quote(scale) +
                          "  # mean and deviation of the targets\n      freeze: [scale]\n";
  return "  train:\n    uses: train\n    resources: {ranks: 1, walltime: " + walltime +
         "}\n    with:\n      model: " + yaml_quote(model) + "\n      data: " + place +
         "\n      epochs: ${{ params.epochs }}\n      batch: " +
         std::to_string(pace_of(data.samples).batch) +
         "\n      lr: ${{ params.lr }}\n      optimizer: {kind: adam}\n" +
         (data.is_table() ? "      keep_best: loss\n" : "") + scaled +
         "    checkpoint: {every: 1 epoch, keep: 2}\n";
}

}  // namespace

TrainingData training_data_of(const runtime::Dataset& rows) {
  TrainingData data{rows.shape, rows.size(), rows.num_classes};
  const double count = double(rows.size());
  for (size_t target = 0; target < rows.num_targets; ++target) {
    double sum = 0, squares = 0;
    for (size_t i = 0; i < rows.size(); ++i) sum += rows.targets[i][target];
    const double mean = sum / count;
    for (size_t i = 0; i < rows.size(); ++i) squares += std::pow(rows.targets[i][target] - mean, 2);
    const float deviation = float(std::sqrt(squares / count));
    data.targets.push_back({float(mean), deviation > 0 ? deviation : 1});
  }
  return data;
}

std::string model_text(const std::string& name, const TrainingData& data) {
  const std::string stages = convolutions(data.shape);
  const std::string scores =
      std::to_string(data.targets.empty() ? data.classes : data.targets.size());
  std::string text =
      "# Written by `dlflow init`. docs/user/model-format.md has every layer.\nname: " + name +
      "\ninput: [" + std::to_string(data.shape.channels);
  if (!data.is_table()) {
    text += ", " + std::to_string(data.shape.height) + ", " + std::to_string(data.shape.width);
  }
  text += "]\n" + std::string(stages.empty() ? "" : kConvolutionBlock) + "layers:\n" + stages;
  if (!stages.empty()) text += "  - global_avg_pool\n";
  if (stages.empty() && !data.is_table()) text += "  - flatten\n";
  if (stages.empty()) {
    text += "  - linear: {features: 64}\n  - relu\n  - linear: {features: 64}\n  - relu\n";
  }
  text += "  - linear: {features: " + scores + "}\n";
  if (data.targets.empty()) return text;
  return text + "  - batch_norm: {name: scale}  # frozen: times the deviation, plus the mean\n" +
         "loss: mse  # or l1, huber; bce, without the layer above, for targets of 0 and 1\n";
}

std::string scale_file(const std::vector<TargetScale>& targets) {
  runtime::SafetensorsHeader header;
  std::vector<float> values;
  const auto add = [&](const char* name, auto value_of) {
    const uint64_t begin = values.size() * sizeof(float);
    for (const TargetScale& target : targets) values.push_back(value_of(target));
    header.entries.push_back(
        {name, runtime::DType::F32, {targets.size()}, begin, values.size() * sizeof(float)});
  };
  add("scale.bias", [](const TargetScale& target) { return target.mean; });
  add("scale.running_mean", [](const TargetScale&) { return 0.0F; });
  add("scale.running_var", [](const TargetScale&) { return 1.0F; });
  add("scale.weight", [](const TargetScale& target) { return target.deviation; });
  const std::string text = runtime::format_header(header);
  const uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + text +
         std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
}

std::string packing_step(const std::string& source, const std::string& options) {
  return "  data:\n    run: [dlflow, data, pack, " + yaml_quote(source) + ", -o, data" + options +
         "]\n" + yaml_inputs({source}) + "    outputs: {data: data}\n";
}

std::vector<InitFile> training_files(const InitRequest& request, const TrainingData& data,
                                     const std::string& first_step, const std::string& place) {
  const std::string stem = request.workflow.stem().string();
  const std::string model = stem + "-model.yaml";
  const std::string scale = data.targets.empty() ? "" : stem + "-scale.safetensors";
  std::string text = head_of_workflow(request.name) +
                     "params: {epochs: " + std::to_string(pace_of(data.samples).epochs) +
                     ", lr: " + (data.is_table() ? "0.01" : "0.003") + "}\nsteps:\n" + first_step +
                     training_step(data, request.walltime_or_hour(), model, scale, place);
  if (data.has_test) {
    text +=
        "  evaluate:\n    uses: evaluate\n    resources: {walltime: 10m}\n    with: {checkpoint: "
        "\"${{ steps.train.outputs.model }}\", data: " +
        place + "}\n";
  }
  const fs::path folder = request.workflow.parent_path();
  std::vector<InitFile> files = {{request.workflow, text},
                                 {folder / model, model_text(request.name, data)}};
  if (!scale.empty()) files.push_back({folder / scale, scale_file(data.targets)});
  return files;
}

}  // namespace dlflow
