#pragma once

#include <cstddef>
#include <string>

#include "runtime/data/dataset.h"
#include "runtime/nn/model.h"

/// Checks whether a network and a data set fit together.
namespace dlflow::runtime {

/// The purpose that a data set is used for.
enum class Purpose {
  Learn,    ///< training or evaluation: the loss is computed
  Predict,  ///< drawing masks, which the pictures need not have
};

/// Whether `model` learns the targets of `dataset`'s samples as shares of its classes.
bool learns_shares(const Model& model, const Dataset& dataset);

/// Throws Error{InvalidInput} unless the samples of `dataset` have the input shape of `model`, and
/// either the targets or masks that its loss needs or labels within its classes. Messages call the
/// dataset `name`. Reads no images.
void require_fit(const Model& model, const Dataset& dataset, const std::string& name,
                 Purpose purpose = Purpose::Learn);

/// Returns why `model` should have fewer scores, if it has more than `dataset` has classes.
std::string note_on_classes(const Model& model, const Dataset& dataset, const std::string& name);

/// Throws Error{InvalidInput} if no training samples remain when `validation` of `num_samples` are
/// held out.
void require_training_samples(size_t num_samples, size_t validation);

/// Throws Error{InvalidInput}: `validation` is set although `dataset` has a validation split.
void refuse_validation_key();

/// Throws Error{InvalidInput}: `device: cuda` is set although the data has shares of classes.
void refuse_shares_on_gpu();

}  // namespace dlflow::runtime
