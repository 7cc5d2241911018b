#include "steps/predict/prediction_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "runtime/train/evaluation.h"

namespace dlflow::steps {
namespace {

struct Answer {
  uint32_t most_probable = 0;  ///< the class with the highest score, the first among equals
  double probability = 0;      ///< of that class: softmax(scores)
};

Answer answer_of(std::span<const float> scores) {
  const auto highest = std::ranges::max_element(scores);
  double sum = 0;
  for (const float score : scores) sum += std::exp(double(score) - double(*highest));
  return {uint32_t(highest - scores.begin()), 1 / sum};
}

/// The predicted target: the score, or after binary cross-entropy the probability of 1.
float value_of(const runtime::Model& model, float score) {
  const bool is_logit = model.loss == runtime::LossKind::BinaryCrossEntropy;
  return is_logit ? float(1 / (1 + std::exp(-double(score)))) : score;
}

/// "target", or "target_0" and "target_1".
std::vector<std::string> numbered(const std::string& name, size_t count) {
  if (count == 1) return {name};
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i) names.push_back(name + "_" + std::to_string(i));
  return names;
}

/// A comma, and the number with enough digits to restore the same bits.
std::string csv_number(float value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return "," + std::string(text.data(), end);
}

/// A line per sample: its number and its answers in a data set, or the name of a new sample; then
/// the class with its probability, or the predicted numbers. Leaves out what cannot be read.
class CsvFile : public PredictionFile {
 public:
  CsvFile(const runtime::Model& model, std::vector<std::string> classes, const NewSamples* samples)
      : model_(model), classes_(std::move(classes)), samples_(samples) {}

  std::string name() const override { return "predictions.csv"; }

  std::string rows(const runtime::Prediction& prediction) const override {
    const size_t count = prediction.labels.size(), width = prediction.scores.size() / count;
    std::string rows;
    for (size_t i = 0; i < count; ++i) {
      const size_t number = prediction.first + i;
      if (samples_ != nullptr && !samples_->faults[number].empty()) continue;
      rows += samples_ != nullptr ? csv_field(samples_->names[number])
                                  : std::to_string(number) + answers(prediction, i, width);
      rows += predicted(prediction.scores.subspan(i * width, width)) + "\n";
    }
    return rows;
  }

 private:
  std::string head(size_t) const override {
    const auto targets = size_t(model_.num_scores());
    if (!has_targets(model_.loss)) {
      return samples_ != nullptr ? samples_->noun + ",class,score\n"
                                 : "sample,label,prediction,probability\n";
    }
    std::vector<std::string> names = numbered("prediction", targets);
    if (samples_ == nullptr) {
      return "sample," + join(numbered("target", targets), ",") + "," + join(names, ",") + "\n";
    }
    if (samples_->targets.size() == targets) {
      std::ranges::transform(samples_->targets, names.begin(), csv_field);
    }
    return samples_->noun + "," + join(names, ",") + "\n";
  }

  std::string answers(const runtime::Prediction& prediction, size_t i, size_t width) const {
    if (!has_targets(model_.loss)) return "," + class_field(prediction.labels[i]);
    std::string fields;
    for (const float target : prediction.targets.subspan(i * width, width)) {
      fields += csv_number(target);
    }
    return fields;
  }

  std::string predicted(std::span<const float> scores) const {
    std::string fields;
    if (has_targets(model_.loss)) {
      for (const float score : scores) fields += csv_number(value_of(model_, score));
      return fields;
    }
    const Answer answer = answer_of(scores);
    char probability[32];
    std::snprintf(probability, sizeof probability, "%.6f", answer.probability);
    return "," + class_field(answer.most_probable) + "," + probability;
  }

  /// The name of class `number`, or the number if it has none.
  std::string class_field(uint32_t number) const {
    return csv_field(number < classes_.size() ? classes_[number] : std::to_string(number));
  }

  const runtime::Model& model_;
  std::vector<std::string> classes_;
  const NewSamples* samples_;
};

/// The masks that a segmentation network predicts for the samples, a byte per pixel.
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

/// An array of all scores, or of the class of each pixel: version 1.0 of
/// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html.
class NpyFile : public PredictionFile {
 public:
  explicit NpyFile(const runtime::Model& model) : model_(model) {}

  std::string name() const override { return "predictions.npy"; }

  std::string rows(const runtime::Prediction& prediction) const override {
    if (has_masks(model_.loss)) return masks_of(model_, prediction);
    const auto bytes = std::as_bytes(prediction.scores);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

 private:
  std::string head(size_t samples) const override {
    const bool of_pixels = has_masks(model_.loss);
    std::string shape = std::to_string(samples) + ",";
    for (const int64_t size : std::span(model_.layers.back().shape).subspan(of_pixels ? 1 : 0)) {
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

  const runtime::Model& model_;
};

}  // namespace

void PredictionFile::write(runtime::FileWriter& file, size_t samples,
                           std::span<const std::string_view> parts) const {
  file.write(head(samples));
  for (const std::string_view part : parts) file.write(part);
}

std::unique_ptr<PredictionFile> prediction_file(PredictionFormat format,
                                                const runtime::Model& model,
                                                std::vector<std::string> classes,
                                                const NewSamples* samples) {
  if (format == PredictionFormat::Npy) return std::make_unique<NpyFile>(model);
  if (has_targets(model.loss) || model.loss == runtime::LossKind::SoftmaxCrossEntropy) {
    return std::make_unique<CsvFile>(model, std::move(classes), samples);
  }
  throw Error(Errc::InvalidInput,
              "a CSV file is for networks with a score per class or target; write an .npy file: "
              "`dlflow predict … -o FILE.npy`, or in a step 'format: npy'");
}

}  // namespace dlflow::steps
