#include "steps/predict/prediction_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <span>

#include "base/text.h"
#include "runtime/train/evaluation.h"

namespace dlflow::steps {
namespace {

std::string class_name(size_t number, const std::vector<std::string>& classes) {
  return number < classes.size() ? csv_field(classes[number]) : std::to_string(number);
}

/// Of the highest score, the first of equal ones; among softmax(scores).
double highest_probability(std::span<const float> scores, size_t highest) {
  double sum = 0;
  for (const float score : scores) sum += std::exp(double(score) - double(scores[highest]));
  return 1 / sum;
}

/// ",target" or ",target_0,target_1"
std::string columns(const std::string& name, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    text += "," + name + (count == 1 ? "" : "_" + std::to_string(i));
  }
  return text;
}

/// With as many digits as give the same bits back.
std::string csv_number(float value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return "," + std::string(text.data(), end);
}

std::string csv_rows_of_targets(const runtime::Model& model,
                                const runtime::Prediction& prediction) {
  const size_t count = prediction.labels.size(), width = prediction.scores.size() / count;
  const bool logits = model.loss == runtime::LossKind::BinaryCrossEntropy;
  std::string rows;
  for (size_t i = 0; i < count; ++i) {
    rows += std::to_string(prediction.first + i);
    for (const float target : prediction.targets.subspan(i * width, width)) {
      rows += csv_number(target);
    }
    for (const float score : prediction.scores.subspan(i * width, width)) {
      rows += csv_number(logits ? float(1 / (1 + std::exp(-double(score)))) : score);
    }
    rows += "\n";
  }
  return rows;
}

std::string csv_rows(const runtime::Prediction& prediction,
                     const std::vector<std::string>& classes) {
  const size_t count = prediction.labels.size(), width = prediction.scores.size() / count;
  std::string rows;
  for (size_t i = 0; i < count; ++i) {
    const auto scores = prediction.scores.subspan(i * width, width);
    const size_t highest = size_t(std::ranges::max_element(scores) - scores.begin());
    char probability[32];
    std::snprintf(probability, sizeof probability, "%.6f", highest_probability(scores, highest));
    rows += std::to_string(prediction.first + i) + "," + class_name(prediction.labels[i], classes) +
            "," + class_name(highest, classes) + "," + probability + "\n";
  }
  return rows;
}

/// Version 1.0 of https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html.
std::string npy_head(const runtime::Model& model, size_t samples) {
  const bool of_pixels = has_masks(model.loss);
  std::string shape = std::to_string(samples) + ",";
  for (const int64_t size : std::span(model.layers.back().shape).subspan(of_pixels ? 1 : 0)) {
    shape += " " + std::to_string(size) + ",";
  }
  std::string text = std::string("{'descr': '") + (of_pixels ? "|u1" : "<f4") +
                     "', 'fortran_order': False, 'shape': (" + shape + "), }";
  constexpr size_t kBefore = 10, kAlignment = 64;
  const size_t padded = (kBefore + text.size() + 1 + kAlignment - 1) / kAlignment * kAlignment;
  text.append(padded - kBefore - text.size() - 1, ' ').push_back('\n');
  const char size[2] = {char(text.size() & 0xff), char(text.size() >> 8)};
  return std::string("\x93NUMPY\x01\x00", 8) + std::string(size, 2) + text;
}

/// The masks that the network gives, a byte per pixel.
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

}  // namespace

std::string file_name(PredictionFormat format) {
  return format == PredictionFormat::Csv ? "predictions.csv" : "predictions.npy";
}

std::string head_of(PredictionFormat format, const runtime::Model& model, size_t samples) {
  if (format == PredictionFormat::Npy) return npy_head(model, samples);
  if (!has_targets(model.loss)) return "sample,label,prediction,probability\n";
  const size_t targets = size_t(model.num_scores());
  return "sample" + columns("target", targets) + columns("prediction", targets) + "\n";
}

std::string rows_of(PredictionFormat format, const runtime::Model& model,
                    const runtime::Prediction& prediction,
                    const std::vector<std::string>& classes) {
  if (format == PredictionFormat::Csv) {
    return has_targets(model.loss) ? csv_rows_of_targets(model, prediction)
                                   : csv_rows(prediction, classes);
  }
  if (has_masks(model.loss)) return masks_of(model, prediction);
  const auto bytes = std::as_bytes(prediction.scores);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace dlflow::steps
