#pragma once

#include <string>
#include <vector>

#include "runtime/nn/model.h"
#include "runtime/train/prediction.h"

/// The file that a `predict` step writes, as pieces that follow each other: a head, then rows.
namespace dlflow::steps {

enum class PredictionFormat {
  Csv,  ///< a line per sample: its number, label, most probable class and that one's probability;
        ///< or its targets, and what the network gives for them, after bce as probabilities
  Npy,  ///< the scores, (samples, scores of a sample); or the class of each pixel, (samples, H, W)
};

/// "predictions.csv"
std::string file_name(PredictionFormat format);

/// The first bytes of a file of `samples`.
std::string head_of(PredictionFormat format, const runtime::Model& model, size_t samples);

/// The rows of `prediction`. Classes are called by their names, if there are any.
std::string rows_of(PredictionFormat format, const runtime::Model& model,
                    const runtime::Prediction& prediction, const std::vector<std::string>& classes);

}  // namespace dlflow::steps
