#pragma once

#include <string>
#include <vector>

#include "runtime/data/dataset.h"

/// Parts of workflows that train a network on a data set.
namespace dlflow {

/// Mean and deviation of a number to learn.
struct TargetScale {
  float mean = 0, deviation = 1;
};

/// The properties of a data set that a network depends on.
struct TrainingData {
  runtime::ImageShape shape;
  size_t samples = 0;
  size_t classes = 0;                     ///< or targets
  std::vector<TargetScale> targets = {};  ///< for each number to learn
  bool has_test = false;

  bool is_table() const { return shape.height == 1 && shape.width == 1; }
};

/// Describes `rows`, a training split, with the scales of numbers to learn. Sets no `has_test`.
TrainingData training_data_of(const runtime::Dataset& rows);

/// The model file: convolutions with batch normalisation for pictures, otherwise linear layers. If
/// the model learns numbers, a last layer turns scores with a standard deviation of 1 into numbers
/// on the scale of the targets.
std::string model_text(const std::string& name, const TrainingData& data);

/// The weights of that layer, as a safetensors file.
std::string scale_file(const std::vector<TargetScale>& targets);

}  // namespace dlflow
