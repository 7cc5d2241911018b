#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/nn/model.h"
#include "runtime/train/prediction.h"

/// The classes and values that a network's scores stand for.
namespace dlflow::steps {

struct Answer {
  uint32_t most_probable = 0;  ///< the class of the highest score, the first of equal ones
  double probability = 0;      ///< of that class: softmax(scores)
};

Answer answer_of(std::span<const float> scores);

/// The name of class `number`, or the number if it has none.
std::string class_name(const std::vector<std::string>& classes, uint32_t number);

/// For a target: the score; after binary cross-entropy the probability of 1.
float value_of(const runtime::Model& model, float score);

/// The masks that a network of masks gives for the samples of `prediction`, a byte per pixel.
std::string masks_of(const runtime::Model& model, const runtime::Prediction& prediction);

/// "target", or "target_0" and "target_1".
std::vector<std::string> numbered(const std::string& name, size_t count);

}  // namespace dlflow::steps
