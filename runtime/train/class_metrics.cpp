#include "runtime/train/class_metrics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace dlflow::runtime {
namespace {

/// Of class `c` against the rest; `order` is memory for the samples' numbers.
std::optional<double> area_of_class(std::span<const uint32_t> labels, std::span<const float> scores,
                                    size_t classes, size_t c, std::vector<uint32_t>& order) {
  const auto score = [&](uint32_t sample) { return scores[sample * classes + c]; };
  order.resize(labels.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::sort(order, {}, score);
  int64_t positives = 0, negatives = 0, halves = 0;  // halves: of the pairs in the right order
  for (size_t i = 0; i < order.size();) {
    int64_t own = 0, others = 0;  // of this score
    const float value = score(order[i]);
    for (; i < order.size() && score(order[i]) == value; ++i) {
      (labels[order[i]] == c ? own : others) += 1;
    }
    halves += own * (2 * negatives + others);
    positives += own;
    negatives += others;
  }
  if (positives == 0 || negatives == 0) return {};
  return double(halves) / 2 / (double(positives) * double(negatives));
}

}  // namespace

std::vector<ClassCounts> count_classes(std::span<const uint32_t> labels,
                                       std::span<const uint32_t> predicted, size_t classes) {
  std::vector<ClassCounts> counts(classes);
  for (size_t i = 0; i < labels.size(); ++i) {
    counts[labels[i]].samples += 1;
    counts[predicted[i]].predicted += 1;
    if (labels[i] == predicted[i]) counts[labels[i]].correct += 1;
  }
  return counts;
}

double macro_f1(std::span<const ClassCounts> counts) {
  double sum = 0;
  int64_t classes = 0;
  for (const ClassCounts& c : counts) {
    if (c.samples + c.predicted == 0) continue;
    sum += 2 * double(c.correct) / double(c.samples + c.predicted);
    ++classes;
  }
  return classes > 0 ? sum / double(classes) : 0;
}

std::optional<double> area_under_curve(std::span<const uint32_t> labels,
                                       std::span<const float> scores, size_t classes) {
  if (std::ranges::any_of(scores, [](float score) { return std::isnan(score); })) return {};
  double sum = 0;
  int64_t measured = 0;
  std::vector<uint32_t> order;
  for (size_t c = classes == 2 ? 1 : 0; c < classes; ++c) {
    const auto area = area_of_class(labels, scores, classes, c, order);
    if (!area) continue;
    sum += *area;
    ++measured;
  }
  if (measured == 0) return {};
  return sum / double(measured);
}

std::vector<int64_t> confusion_matrix(std::span<const uint32_t> labels,
                                      std::span<const uint32_t> predicted, size_t classes) {
  std::vector<int64_t> matrix(classes * classes);
  for (size_t i = 0; i < labels.size(); ++i) matrix[labels[i] * classes + predicted[i]] += 1;
  return matrix;
}

}  // namespace dlflow::runtime
