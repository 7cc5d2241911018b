#include "runtime/fit/measures.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace dlflow::runtime {
namespace {

constexpr const char *kAccuracyOf = "accuracy_of_", *kIouOf = "iou_of_",
                     *kBitsPerByte = "bits_per_byte";

std::vector<std::string> class_metric_names(int64_t classes) {
  std::vector<std::string> names = {"loss", "accuracy", "f1"};
  if (classes > 5) names.emplace_back("top5");
  if (classes >= 2 && classes <= kMostAucClasses) names.emplace_back("auc");
  return names;
}

[[noreturn]] void refuse_metric(const Model& model, const std::string& what,
                                const std::string& metric) {
  const std::vector<std::string> names = metric_names(model);
  throw Error(Errc::InvalidInput, what + " '" + metric + "', which model '" + model.name +
                                      "' does not have; it has " + join(names, ", ") +
                                      did_you_mean(metric, names));
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

/// Metrics of networks with this loss; only a loss of classes uses `classes`.
std::vector<std::string> names_of(LossKind loss, int64_t classes) {
  switch (loss) {
    case LossKind::SoftmaxCrossEntropy:
      return class_metric_names(classes);
    case LossKind::NextToken:
      return {"loss", "accuracy", "perplexity"};
    case LossKind::Reconstruction:
      return {"loss", "rmse"};
    case LossKind::MeanSquaredError:
    case LossKind::AbsoluteError:
    case LossKind::Huber:
      return {"loss", "rmse", "mae"};
    case LossKind::BinaryCrossEntropy:
      return {"loss", "accuracy"};
    case LossKind::PixelCrossEntropy:
    case LossKind::Dice:
    case LossKind::PixelCrossEntropyAndDice:
      return {"loss", "pixel_accuracy", "iou", "dice"};
  }
  return {};
}

/// Whether `label_smoothing` changes the loss, that is, it includes cross-entropy.
bool smooths_labels(LossKind loss) {
  return loss == LossKind::SoftmaxCrossEntropy || loss == LossKind::NextToken ||
         loss == LossKind::PixelCrossEntropy || loss == LossKind::PixelCrossEntropyAndDice;
}

/// Whether any network has this metric.
bool is_metric(const std::string& name) {
  return contains(all_metric_names(), name) || name == kBitsPerByte ||
         name.starts_with(kAccuracyOf) || name.starts_with(kIouOf);
}

/// Whether `evaluate` reports this metric in addition to metric_names().
bool is_measured_by_evaluate(const Model& model, const std::string& name) {
  if (name == kBitsPerByte) return model.loss == LossKind::NextToken;
  if (name.starts_with(kAccuracyOf)) return model.loss == LossKind::SoftmaxCrossEntropy;
  return name.starts_with(kIouOf) && has_masks(model.loss);
}

}  // namespace

std::vector<std::string> metric_names(const Model& model) {
  const bool has_classes = model.loss == LossKind::SoftmaxCrossEntropy;
  return names_of(model.loss, has_classes ? model.num_classes() : 0);
}

std::vector<std::string> all_metric_names() {
  constexpr int64_t kClasses = 10;  // with which every metric of classes is defined
  std::vector<std::string> all;
  for (int loss = 0; loss <= int(LossKind::PixelCrossEntropyAndDice); ++loss) {
    for (const std::string& name : names_of(LossKind(loss), kClasses)) {
      if (!contains(all, name)) all.push_back(name);
    }
  }
  return all;
}

void require_measured(const Model& model, const std::string& key, const std::string& metric) {
  if (!contains(metric_names(model), metric))
    refuse_metric(model, "with: '" + key + "' is", metric);
}

void refuse_foreign_metric(const Model& model, const std::string& key, const std::string& metric) {
  const std::vector<std::string> names = metric_names(model);
  if (contains(names, metric) || is_measured_by_evaluate(model, metric)) return;
  if (is_metric(metric) || !nearest(metric, names).empty()) {
    refuse_metric(model, "'" + key + "' names", metric);
  }
}

void require_smoothing_fits(const Model& model, double label_smoothing) {
  if (label_smoothing == 0 || smooths_labels(model.loss)) return;
  throw Error(Errc::InvalidInput,
              "with: 'label_smoothing' spreads labels over classes; the loss "
              "of model '" +
                  model.name + "' has no labels: leave it out");
}

void require_class_weights_fit(const Model& model, size_t count) {
  if (count == 0) return;
  if (model.loss != LossKind::SoftmaxCrossEntropy && !has_masks(model.loss)) {
    throw Error(Errc::InvalidInput, "with: 'class_weights' are for classes; the loss of model '" +
                                        model.name + "' has none");
  }
  if (int64_t(count) == model.num_classes()) return;
  throw Error(Errc::InvalidInput, "with: 'class_weights' has " + std::to_string(count) +
                                      " numbers for the " + std::to_string(model.num_classes()) +
                                      " classes of model '" + model.name + "'");
}

}  // namespace dlflow::runtime
