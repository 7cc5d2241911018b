#include "runtime/train/training_state.h"

#include "base/parse_json.h"

namespace dlflow::runtime {
namespace {

std::vector<uint64_t> unsigned_shape(const Parameter& parameter) {
  return {parameter.shape.begin(), parameter.shape.end()};
}

Json to_json(const TrainingState& state) {
  Json json = {
      {"epoch", state.position.epoch},
      {"step", state.position.step},
      {"seed", state.seed},
      {"global_batch", state.global_batch},
      {"train_samples", state.train_samples},
      {"reduction", state.reduction},
      {"arithmetic", state.arithmetic},
      {"optimizer", state.optimizer},
      {"updates", state.updates},
      {"epochs", state.epochs},
      {"data", state.data},
      {"settings", state.settings},
      {"rules", state.rules},
      {"epoch_loss", {{"sum", state.epoch_loss.sum}, {"samples", state.epoch_loss.samples}}},
      {"normalization",
       {{"scale", state.normalization.scale}, {"shift", state.normalization.shift}}}};
  if (!state.classes.empty()) json["classes"] = state.classes;
  if (!state.tokenizer.empty()) json["tokenizer"] = state.tokenizer;
  if (!state.origin.empty()) json["origin"] = state.origin;
  return json;
}

/// Older checkpoints have no epoch loss, or one that counts steps.
MeanLoss epoch_loss_of(const Json& state) {
  const auto loss = state.find("epoch_loss");
  if (loss == state.end() || !loss->contains("samples")) return {};
  return {loss->at("sum"), loss->at("samples")};
}

/// The number of parameters in a buffer of `layout`, which may have trainable ones only.
size_t parameters_in(std::span<const float> buffer, const WeightLayout& layout) {
  return buffer.size() >= layout.size() ? layout.parameters().size() : layout.num_trainable();
}

/// Adds the parameters of `buffer`, and puts them in plain order.
void add_plain_tensors(const WeightLayout& layout, const BufferCopy& buffer,
                       std::vector<TensorView>& tensors) {
  for (size_t i = 0; i < parameters_in(buffer.values, layout); ++i) {
    const Parameter& parameter = layout.parameters()[i];
    const std::span<const float> values = layout.make_plain(buffer.values, i);
    tensors.push_back(
        tensor_view<float>(parameter.name + buffer.name, unsigned_shape(parameter), values));
  }
}

const TensorView& tensor_of(const Safetensors& tensors, const Parameter& parameter,
                            const std::string& name) {
  const TensorView& tensor = tensors.at(parameter.name + name);
  if (tensor.shape != unsigned_shape(parameter)) {
    throw Error(Errc::InvalidInput,
                "tensor '" + tensor.name + "' has another shape than the model declares");
  }
  return tensor;
}

void load_tensors(const Safetensors& tensors, const WeightLayout& layout, const std::string& name,
                  std::span<float> buffer) {
  for (size_t i = 0; i < parameters_in(buffer, layout); ++i) {
    const TensorView& tensor = tensor_of(tensors, layout.parameters()[i], name);
    std::vector<float> values(tensor.bytes.size() / sizeof(float));
    copy_elements<float>(tensor, values);
    layout.from_plain(values, buffer, i);
  }
}

}  // namespace

std::filesystem::path save_training(const std::filesystem::path& folder, size_t keep,
                                    const TrainingCopy& training) {
  const WeightLayout& layout = training.layout;
  CheckpointContent content;
  content.info = training.info;
  add_plain_tensors(layout, {"", training.weights}, content.model);
  for (const BufferCopy& buffer : training.optimizer) {
    add_plain_tensors(layout, buffer, content.optimizer);
  }
  content.state = to_json(training.state);
  content.further = training.further;
  const auto best = training.state.rules.find("keep_best");
  if (best != training.state.rules.end()) content.info.best = best->at("step");
  return save_checkpoint(folder, content, keep);
}

TrainingState training_state_of(const Checkpoint& checkpoint) {
  try {
    const Json& json = checkpoint.state;
    return {{json.at("epoch"), json.at("step")},
            json.at("seed"),
            json.at("global_batch"),
            json.at("train_samples"),
            {json.at("normalization").at("scale"), json.at("normalization").at("shift")},
            json.value("reduction", ""),
            json.value("arithmetic", ""),
            json.value("optimizer", "sgd"),  // older checkpoints knew no other
            json.value("updates", uint64_t(0)),
            epoch_loss_of(json),
            json.value("epochs", uint64_t(0)),
            json.value("data", ""),
            json.value("settings", Json::object()),
            json.value("rules", Json::object()),
            json.value("classes", std::vector<std::string>()),
            json.value("tokenizer", ""),
            json.value("origin", std::vector<std::string>())};
  } catch (const Json::exception& e) {
    throw Error(Errc::Corrupt, std::string("the checkpoint's state.json is not that of a training "
                                           "run: ") +
                                   reason_of(e));
  }
}

std::vector<std::string> changes_of_bits(const TrainingState& saved, const TrainingState& now) {
  std::vector<std::string> changes;
  if (saved.global_batch != now.global_batch) {
    changes.push_back("the batch was " + std::to_string(saved.global_batch) + ", now it is " +
                      std::to_string(now.global_batch));
  }
  if (saved.epochs != now.epochs && saved.epochs > 0 && now.epochs > 0) {
    changes.push_back("the learning rate followed epochs: " + std::to_string(saved.epochs) +
                      ", now it follows " + std::to_string(now.epochs));
  }
  if (saved.reduction != now.reduction) {
    changes.push_back("the reduction was " + saved.reduction + ", now it is " + now.reduction);
  }
  if (saved.arithmetic != now.arithmetic) {
    changes.push_back("it was computed by " + saved.arithmetic + ", now by " + now.arithmetic);
  }
  return changes;
}

void require_weights(const Checkpoint& checkpoint, const Model& model) {
  const auto layout = plain_layout(model);
  for (const Parameter& parameter : layout->parameters()) {
    tensor_of(checkpoint.model, parameter, "");
  }
}

void load_weights(const Checkpoint& checkpoint, const WeightLayout& layout,
                  std::span<float> weights) {
  load_tensors(checkpoint.model, layout, "", weights);
}

void load_optimizer_buffer(const Checkpoint& checkpoint, const WeightLayout& layout,
                           const std::string& name, std::span<float> buffer) {
  load_tensors(checkpoint.optimizer, layout, name, buffer);
}

}  // namespace dlflow::runtime
