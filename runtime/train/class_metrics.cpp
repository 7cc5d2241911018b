#include "runtime/train/class_metrics.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

namespace dlflow::runtime {
namespace {

/// Returns the area of class `c` against the rest; `order` is scratch memory for sample indices.
std::optional<double> area_of_class(std::span<const uint32_t> labels, std::span<const float> scores,
                                    size_t classes, size_t c, std::vector<uint32_t>& order) {
  const auto score = [&](uint32_t sample) { return scores[sample * classes + c]; };
  order.resize(labels.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::sort(order, {}, score);
  int64_t positives = 0, negatives = 0, halves = 0;  // halves: 2 per ordered pair, 1 per tie
  for (size_t i = 0; i < order.size();) {
    int64_t own = 0, others = 0;  // with this score
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

/// Returns the mean over the classes that occur; 0 if none does.
template <typename Measure>
double mean_over(std::span<const ClassCounts> counts, Measure measure) {
  double sum = 0;
  int64_t classes = 0;
  for (const ClassCounts& c : counts) {
    if (c.samples + c.predicted == 0) continue;
    sum += measure(c);
    ++classes;
  }
  return classes > 0 ? sum / double(classes) : 0;
}

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/// Replaces each run of other characters by one `_`, and removes it at both ends.
std::string word_of(const std::string& name) {
  std::string word;
  for (const char c : name) {
    if (is_word(c)) {
      word += c;
    } else if (!word.empty() && word.back() != '_') {
      word += '_';
    }
  }
  if (word.ends_with('_')) word.pop_back();
  return word;
}

}  // namespace

std::vector<std::string> class_keys(std::span<const std::string> names, size_t classes) {
  std::vector<std::string> words(classes), keys, numbers;
  for (size_t c = 0; c < std::min(classes, names.size()); ++c) words[c] = word_of(names[c]);
  for (size_t c = 0; c < classes; ++c) {
    numbers.push_back(std::to_string(c));
    const bool is_only = std::ranges::count(words, words[c]) == 1;
    keys.push_back(words[c].empty() ? numbers[c]
                   : is_only        ? words[c]
                                    : words[c] + "_" + numbers[c]);
  }
  const bool all_differ = std::set<std::string>(keys.begin(), keys.end()).size() == keys.size();
  return all_differ ? keys : numbers;
}

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
  return mean_over(counts, [](const ClassCounts& c) {
    return 2 * double(c.correct) / double(c.samples + c.predicted);
  });
}

double mean_iou(std::span<const ClassCounts> counts) {
  return mean_over(counts, [](const ClassCounts& c) {
    return double(c.correct) / double(c.samples + c.predicted - c.correct);
  });
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

std::vector<ClassCounts> count_classes(std::span<const int64_t> matrix, size_t classes) {
  std::vector<ClassCounts> counts(classes);
  for (size_t i = 0; i < matrix.size(); ++i) {
    const size_t label = i / classes, predicted = i % classes;
    counts[label].samples += matrix[i];
    counts[predicted].predicted += matrix[i];
    if (label == predicted) counts[label].correct += matrix[i];
  }
  return counts;
}

}  // namespace dlflow::runtime
