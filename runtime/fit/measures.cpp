#include "runtime/fit/measures.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace dlflow::runtime {
namespace {

std::vector<std::string> class_metric_names(int64_t classes) {
  std::vector<std::string> names = {"loss", "accuracy", "f1"};
  if (classes > 5) names.emplace_back("top5");
  if (classes >= 2 && classes <= kMostAucClasses) names.emplace_back("auc");
  return names;
}

}  // namespace

std::vector<std::string> metric_names(const Model& model) {
  switch (model.loss) {
    case LossKind::SoftmaxCrossEntropy:
      return class_metric_names(model.num_classes());
    case LossKind::NextToken:
      return {"loss", "accuracy", "perplexity"};
    case LossKind::Reconstruction:
      return {"loss", "rmse"};
    case LossKind::MeanSquaredError:
    case LossKind::AbsoluteError:
    case LossKind::Huber:
      return {"loss", "rmse", "mae"};
    case LossKind::BinaryCrossEntropy:
    case LossKind::Contrastive:
      return {"loss", "accuracy"};
    case LossKind::PixelCrossEntropy:
    case LossKind::Dice:
    case LossKind::PixelCrossEntropyAndDice:
      return {"loss", "pixel_accuracy", "iou", "dice"};
  }
  return {};
}

void require_measured(const Model& model, const std::string& key, const std::string& metric) {
  const std::vector<std::string> names = metric_names(model);
  if (std::ranges::find(names, metric) != names.end()) return;
  throw Error(Errc::InvalidInput, "with: '" + key + "' is '" + metric + "', which model '" +
                                      model.name + "' is not measured by; there are " +
                                      join(names, ", "));
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
