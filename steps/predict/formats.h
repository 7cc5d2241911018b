#pragma once

#include "steps/predict/prediction_file.h"

/// The formats of predictions, each in a source file of its own.
namespace dlflow::steps {

/// Lines of text: number, label, prediction and probability of each sample.
std::unique_ptr<PredictionFile> csv_file(const runtime::Model& model,
                                         std::vector<std::string> classes);

/// An array of all scores, or of the class of each pixel.
std::unique_ptr<PredictionFile> npy_file(const runtime::Model& model);

}  // namespace dlflow::steps
