#include "runtime/fit/fit.h"

#include <cmath>
#include <cstdint>

#include "base/error.h"
#include "runtime/nn/sequence_length.h"

namespace dlflow::runtime {
namespace {

[[noreturn]] void refuse_data(const Model& model, const std::string& reason) {
  throw Error(Errc::InvalidInput, "model '" + model.name + "' " + reason);
}

static_assert(kNoClass == kIgnoredClass);

/// Requires masks if the loss needs a class per pixel, and refuses them otherwise, unless the loss
/// only looks at the input.
void require_masks(const Model& model, const Dataset& dataset, const std::string& name) {
  const std::string loss = "has 'loss: " + runtime::name(model.loss) + "'";
  if (!has_masks(model.loss)) {
    const bool takes_any =
        model.loss == LossKind::Reconstruction || model.loss == LossKind::NextToken;
    if (!dataset.has_masks || takes_any) return;
    refuse_data(model, loss + ", but " + name +
                           " has a class per pixel; write 'loss: pixel_cross_entropy', 'dice' or "
                           "'pixel_cross_entropy_and_dice'");
  }
  if (!dataset.has_masks) {
    refuse_data(model, loss + ", which needs a class per pixel, but " + name + " has " +
                           (dataset.num_targets > 0 ? "targets" : "labels") +
                           "; pack it with masks (dlflow data pack --help)");
  }
  if (dataset.num_classes <= uint32_t(model.num_classes())) return;
  refuse_data(model, "has " + std::to_string(model.num_classes()) + " classes, but " + name +
                         " has masks of " + std::to_string(dataset.num_classes) +
                         "; its last layer must give a score for each of them");
}

/// The targets of each sample must be the shares of the classes in it.
void require_shares(const Model& model, const Dataset& dataset, const std::string& name) {
  constexpr double kMostRounding = 1e-3;  // how far the sum may be from 1, since shares may be
                                          // stored in 16 bits
  const std::string loss = "has 'loss: " + runtime::name(model.loss) + "'";
  const std::string others = "; to learn other numbers write 'loss: mse', 'l1', 'huber' or 'bce'";
  if (int64_t(dataset.num_targets) != model.num_classes()) {
    refuse_data(model, loss + ", which needs labels, but " + name + " has " +
                           std::to_string(dataset.num_targets) +
                           " targets a sample, not the shares of " +
                           std::to_string(model.num_classes()) + " classes" + others);
  }
  for (size_t i = 0; i < dataset.size(); ++i) {
    double sum = 0;
    bool are_shares = true;
    for (const float share : dataset.targets[i]) {
      sum += double(share);
      are_shares = are_shares && share >= 0;
    }
    if (are_shares && std::abs(sum - 1) <= kMostRounding) continue;
    refuse_data(model,
                loss + ", whose targets are shares of classes; those of sample " +
                    std::to_string(i) + " of " + name +
                    (are_shares ? " add up to " + std::to_string(sum) : " are not all 0 or more") +
                    others);
  }
}

/// The samples of `dataset` must have the targets or labels that the loss needs.
void require_answers(const Model& model, const Dataset& dataset, const std::string& name) {
  const std::string loss = "has 'loss: " + runtime::name(model.loss) + "'";
  const uint32_t targets = dataset.num_targets;
  if (learns_shares(model, dataset)) return require_shares(model, dataset, name);
  if (!has_targets(model.loss)) return;
  if (targets == 0) {
    refuse_data(model, loss + ", which needs targets, but " + name +
                           " has labels; pack it with targets (dlflow data pack --help), or leave "
                           "'loss' out");
  }
  if (int64_t(targets) != model.num_classes()) {
    refuse_data(model, "gives " + std::to_string(model.num_classes()) + " numbers a sample, but " +
                           name + " has " + std::to_string(targets) + " targets");
  }
  if (model.loss != LossKind::BinaryCrossEntropy) return;
  for (size_t i = 0; i < dataset.size(); ++i) {
    for (const float target : dataset.targets[i]) {
      if (target == 0 || target == 1) continue;
      refuse_data(model, loss + ", whose targets are 0 or 1; sample " + std::to_string(i) + " of " +
                             name + " has " + std::to_string(target));
    }
  }
}

void require_shape(const Model& model, const Dataset& dataset, const std::string& name) {
  const ImageShape& s = dataset.shape;
  const TensorShape pictures = {int64_t(s.channels), int64_t(s.height), int64_t(s.width)};
  const bool rows = model.input.size() == 1 && model.input[0] == int64_t(s.num_values());
  if (model.input == pictures || rows) return;
  const bool are_rows = model.input.size() == 1 && s.height * s.width == 1;
  refuse_data(
      model, "takes " + to_string(model.input) + ", but " + name + " has " + to_string(pictures) +
                 (are_rows ? "; write input: [" + std::to_string(s.channels) + "] in the model file"
                           : ""));
}

void require_classes(const Model& model, const Dataset& dataset, const std::string& name) {
  for (size_t i = 0; i < dataset.size(); ++i) {
    if (int64_t(dataset.labels[i]) < model.num_classes()) continue;
    refuse_data(model, "has " + std::to_string(model.num_classes()) + " classes, but " + name +
                           " has the label " + std::to_string(dataset.labels[i]) + " (sample " +
                           std::to_string(i) +
                           "); its last layer must give a score for each class");
  }
}

/// Texts of unequal length are padded at the end, which must not change results.
void require_padding(const Model& model, const Dataset& dataset, const std::string& name) {
  if (!dataset.has_texts()) return;
  const std::string texts = name + " has texts of unequal length (packed with --per)";
  const std::string loss = "has 'loss: " + runtime::name(model.loss) + "', but ";
  if (dataset.has_text_classes() && model.loss != LossKind::SoftmaxCrossEntropy) {
    refuse_data(model, loss + name +
                           " has texts with classes (packed with --labels), which only 'loss: "
                           "softmax_cross_entropy' can learn");
  }
  if (!dataset.has_text_classes() && model.loss != LossKind::NextToken) {
    refuse_data(model, loss + texts +
                           ", which only 'loss: next_token' can learn; to learn classes of "
                           "texts, pack them with --labels folders");
  }
  if (model.ignored_token) {
    refuse_data(model, "has 'ignored_token', but " + texts +
                           ": nothing in them is padding; leave the key out");
  }
  const std::string reason = reason_against_padding(model);
  if (!reason.empty())
    refuse_data(model, "cannot learn from " + name + ": " + reason + "; " + texts);
}

/// Tokens must be valid indices of embedding rows and of scores.
void require_tokens(const Model& model, const Dataset& dataset, const std::string& name) {
  if (dataset.tokenizer.empty()) return;
  const auto tokens = int64_t(dataset.num_kinds_of_token());
  if (!model.takes_tokens()) {
    refuse_data(model, "reads pictures or numbers, but " + name +
                           " has tokens of text; begin it with an 'embedding'");
  }
  for (const Layer& layer : model.layers) {
    if (layer.kind != LayerKind::Embedding || layer.vocabulary >= tokens) continue;
    refuse_data(model, "has 'vocabulary: " + std::to_string(layer.vocabulary) + "' in '" +
                           layer.name + "', but " + name + " has " + std::to_string(tokens) +
                           " tokens; write 'vocabulary: " + std::to_string(tokens) + "'");
  }
  if (model.loss != LossKind::NextToken || model.num_classes() >= tokens) return;
  refuse_data(model, "gives scores of " + std::to_string(model.num_classes()) + " tokens, but " +
                         name + " has " + std::to_string(tokens) +
                         "; give the last layer 'features: " + std::to_string(tokens) + "'");
}

}  // namespace

bool learns_shares(const Model& model, const Dataset& dataset) {
  return dataset.num_targets > 0 && model.loss == LossKind::SoftmaxCrossEntropy;
}

void require_fit(const Model& model, const Dataset& dataset, const std::string& name,
                 Purpose purpose) {
  require_shape(model, dataset, name);
  require_tokens(model, dataset, name);
  require_padding(model, dataset, name);
  const bool needs_masks = purpose == Purpose::Learn || dataset.has_masks;
  if (has_masks(model.loss) && !needs_masks) return;
  require_masks(model, dataset, name);
  if (has_masks(model.loss)) return;
  require_answers(model, dataset, name);
  const bool has_classes = model.loss == LossKind::SoftmaxCrossEntropy;
  if (has_classes && !learns_shares(model, dataset)) require_classes(model, dataset, name);
}

std::string note_on_classes(const Model& model, const Dataset& dataset, const std::string& name) {
  const bool has_classes = model.loss == LossKind::SoftmaxCrossEntropy && dataset.num_targets == 0;
  const uint32_t classes = has_classes ? dataset.num_classes : 0;
  if (classes == 0 || model.num_classes() <= int64_t(classes)) return "";
  return "model '" + model.name + "' gives " + std::to_string(model.num_classes()) +
         " scores, and " + name + " has " + std::to_string(classes) +
         " classes; give its last layer " + std::to_string(classes);
}

void require_training_samples(size_t num_samples, size_t validation) {
  if (validation < num_samples) return;
  throw Error(Errc::InvalidInput, "with: 'validation' holds out " + std::to_string(validation) +
                                      " of " + std::to_string(num_samples) +
                                      " samples; nothing is left to train on");
}

void refuse_validation_key() {
  throw Error(Errc::InvalidInput,
              "with: 'validation' holds out training samples, but the data has a validation split; "
              "leave the key out");
}

void refuse_shares_on_gpu() {
  throw Error(Errc::InvalidInput,
              "with: 'device: cuda' needs one label for each sample, but the training data has "
              "shares of classes; leave 'device' out");
}

}  // namespace dlflow::runtime
