#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "runtime/nn/model.h"

/// The metrics of a network, and settings that must go with them or with its classes.
namespace dlflow::runtime {

/// More classes than that take too much memory for all scores.
constexpr int64_t kMostAucClasses = 100;

/// The metrics that a network has in training and evaluation, by name; `auc` is left out where it
/// is undefined.
std::vector<std::string> metric_names(const Model& model);

/// Those of all networks.
std::vector<std::string> all_metric_names();

/// Throws Error{InvalidInput} naming `key`, whose value is `metric`, if `model` is not measured by
/// it.
void require_measured(const Model& model, const std::string& key, const std::string& metric);

/// Throws Error{InvalidInput} naming `key` if `metric` is one that only other networks than `model`
/// are measured by, or a mistyped one of `model`. A step reports more than its network's metrics,
/// such as samples, so that other names may be right.
void refuse_foreign_metric(const Model& model, const std::string& key, const std::string& metric);

/// Throws Error{InvalidInput} if labels are to be smoothed (above 0) and the loss has no labels of
/// classes.
void require_smoothing_fits(const Model& model, double label_smoothing);

/// Throws Error{InvalidInput} if `count` class weights, 0: none, are not one for each class.
void require_class_weights_fit(const Model& model, size_t count);

}  // namespace dlflow::runtime
