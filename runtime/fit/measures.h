#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "runtime/nn/model.h"

/// The metrics of a network, and settings that must fit them or its classes.
namespace dlflow::runtime {

/// The scores of more classes take too much memory.
constexpr int64_t kMostAucClasses = 100;

/// Names of the metrics that a network has in training and evaluation; without `auc` where it is
/// undefined.
std::vector<std::string> metric_names(const Model& model);

/// Names of the metrics of all networks.
std::vector<std::string> all_metric_names();

/// Throws Error{InvalidInput} naming `key`, whose value is `metric`, if `model` does not have this
/// metric.
void require_measured(const Model& model, const std::string& key, const std::string& metric);

/// Throws Error{InvalidInput} naming `key` if only other networks than `model` have `metric`, or if
/// it is a misspelt metric of `model`. Accepts other names, since a step also reports values that
/// are no metrics of its network, such as samples.
void refuse_foreign_metric(const Model& model, const std::string& key, const std::string& metric);

/// Throws Error{InvalidInput} if `label_smoothing` is above 0 and the loss has no class labels.
void require_smoothing_fits(const Model& model, double label_smoothing);

/// Throws Error{InvalidInput} unless `count` class weights are 0 or one per class.
void require_class_weights_fit(const Model& model, size_t count);

}  // namespace dlflow::runtime
