#pragma once

#include <cstddef>
#include <string>

#include "runtime/data/dataset.h"
#include "runtime/nn/model.h"

/// Whether a network and a data set go together.
namespace dlflow::runtime {

/// A use of the samples of a data set.
enum class Purpose {
  Learn,    ///< or measures itself: its loss is computed
  Predict,  ///< draw masks, of pictures that need none
};

/// Whether the targets of `dataset`'s samples are to `model` the shares of its classes.
bool learns_shares(const Model& model, const Dataset& dataset);

/// Throws Error{InvalidInput} unless the samples of `dataset` have the shape that `model` takes,
/// and the targets or masks that its loss wants, or labels among its classes; `name` is the
/// dataset's, for the message. Reads no images.
void require_fit(const Model& model, const Dataset& dataset, const std::string& name,
                 Purpose purpose = Purpose::Learn);

/// Throws Error{InvalidInput} if nothing is left to train on when `validation` of `num_samples` are
/// held out.
void require_training_samples(size_t num_samples, size_t validation);

/// Throws Error{InvalidInput}: `validation` is given, and `dataset` has a validation split.
void refuse_validation_key();

/// Throws Error{InvalidInput}: `device: cuda` is given, and the data has shares of classes.
void refuse_shares_on_gpu();

}  // namespace dlflow::runtime
