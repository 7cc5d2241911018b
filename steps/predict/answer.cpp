#include "steps/predict/answer.h"

#include <algorithm>
#include <cmath>

#include "runtime/train/evaluation.h"

namespace dlflow::steps {

Answer answer_of(std::span<const float> scores) {
  const auto highest = std::ranges::max_element(scores);
  double sum = 0;
  for (const float score : scores) sum += std::exp(double(score) - double(*highest));
  return {uint32_t(highest - scores.begin()), 1 / sum};
}

std::string class_name(const std::vector<std::string>& classes, uint32_t number) {
  return number < classes.size() ? classes[number] : std::to_string(number);
}

float value_of(const runtime::Model& model, float score) {
  const bool is_logit = model.loss == runtime::LossKind::BinaryCrossEntropy;
  return is_logit ? float(1 / (1 + std::exp(-double(score)))) : score;
}

std::string masks_of(const runtime::Model& model, const runtime::Prediction& prediction) {
  const auto size = size_t(model.num_scores()), pixels = size / size_t(model.num_classes());
  std::string masks;
  std::vector<uint8_t> classes;
  for (size_t i = 0; i < prediction.labels.size(); ++i) {
    runtime::highest_classes(prediction.scores.subspan(i * size, size), pixels, classes);
    masks.append(classes.begin(), classes.end());
  }
  return masks;
}

std::vector<std::string> numbered(const std::string& name, size_t count) {
  if (count == 1) return {name};
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i) names.push_back(name + "_" + std::to_string(i));
  return names;
}

}  // namespace dlflow::steps
