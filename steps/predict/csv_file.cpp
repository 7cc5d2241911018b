#include <array>
#include <charconv>
#include <cstdio>
#include <utility>

#include "base/text.h"
#include "steps/predict/answer.h"
#include "steps/predict/formats.h"

namespace dlflow::steps {
namespace {

/// With as many digits as give the same bits back.
std::string csv_number(float value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return "," + std::string(text.data(), end);
}

class CsvOfClasses : public PredictionFile {
 public:
  explicit CsvOfClasses(std::vector<std::string> classes) : classes_(std::move(classes)) {}

  std::string name() const override { return "predictions.csv"; }

  std::string rows(const runtime::Prediction& prediction) const override {
    const size_t count = prediction.labels.size(), width = prediction.scores.size() / count;
    std::string rows;
    for (size_t i = 0; i < count; ++i) {
      const Answer answer = answer_of(prediction.scores.subspan(i * width, width));
      char probability[32];
      std::snprintf(probability, sizeof probability, "%.6f", answer.probability);
      rows += std::to_string(prediction.first + i) + "," + field(prediction.labels[i]) + "," +
              field(answer.most_probable) + "," + probability + "\n";
    }
    return rows;
  }

 private:
  std::string head(size_t) const override { return "sample,label,prediction,probability\n"; }

  std::string field(uint32_t number) const { return csv_field(class_name(classes_, number)); }

  std::vector<std::string> classes_;
};

class CsvOfTargets : public PredictionFile {
 public:
  explicit CsvOfTargets(const runtime::Model& model) : model_(model) {}

  std::string name() const override { return "predictions.csv"; }

  std::string rows(const runtime::Prediction& prediction) const override {
    const size_t count = prediction.labels.size(), width = prediction.scores.size() / count;
    std::string rows;
    for (size_t i = 0; i < count; ++i) {
      rows += std::to_string(prediction.first + i);
      for (const float target : prediction.targets.subspan(i * width, width)) {
        rows += csv_number(target);
      }
      for (const float score : prediction.scores.subspan(i * width, width)) {
        rows += csv_number(value_of(model_, score));
      }
      rows += "\n";
    }
    return rows;
  }

 private:
  std::string head(size_t) const override {
    const auto targets = size_t(model_.num_scores());
    return "sample," + join(numbered("target", targets), ",") + "," +
           join(numbered("prediction", targets), ",") + "\n";
  }

  const runtime::Model& model_;
};

}  // namespace

std::unique_ptr<PredictionFile> csv_file(const runtime::Model& model,
                                         std::vector<std::string> classes) {
  if (has_targets(model.loss)) return std::make_unique<CsvOfTargets>(model);
  return std::make_unique<CsvOfClasses>(std::move(classes));
}

}  // namespace dlflow::steps
